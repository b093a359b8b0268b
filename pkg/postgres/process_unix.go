//go:build unix && !linux

package postgres

import "syscall"

// sysProcAttr keeps a terminal's Ctrl-C away from Postgres. Only Linux can take it down with us; elsewhere a killed
// parent leaves a server behind, which the next start reports by its lock file.
func sysProcAttr(a account, _ bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: a.credential(), Setpgid: true}
}
