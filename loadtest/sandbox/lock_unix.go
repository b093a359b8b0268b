//go:build unix

package sandbox

import (
	"os"
	"syscall"
)

// lockFile keeps a second process from appending to the same ledger. The lock ends with the process.
func lockFile(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
