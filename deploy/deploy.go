// Package deploy embeds the example configuration, so that `holdpoint up` needs no file besides the binary.
package deploy

import (
	"embed"
	"io/fs"
)

//go:embed config/example
var example embed.FS

// Example is the example configuration directory, as config.Load reads it.
func Example() fs.FS {
	dir, _ := fs.Sub(example, "config/example") // embedded, so it is there
	return dir
}
