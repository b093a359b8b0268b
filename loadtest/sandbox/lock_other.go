//go:build !unix

package sandbox

import "os"

// lockFile does nothing where the platform has no flock; the sandbox is a development tool there.
func lockFile(*os.File) error { return nil }
