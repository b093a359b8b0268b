package postgres

import "syscall"

// sysProcAttr keeps a terminal's Ctrl-C away from Postgres (we stop it in order) and takes it down with us: fast
// shutdown for data that must last, the immediate one for throwaway servers.
func sysProcAttr(a account, durable bool) *syscall.SysProcAttr {
	deathSignal := syscall.SIGQUIT
	if durable {
		deathSignal = syscall.SIGINT
	}
	return &syscall.SysProcAttr{Credential: a.credential(), Setpgid: true, Pdeathsig: deathSignal}
}
