package servicetest

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// CPU is what this process, and what all of Postgres, has used of all cores.
func (w *World) CPU(t testing.TB) (own, postgres time.Duration) {
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	backend := w.Text(`select pg_backend_pid()::text`)
	parent := statOf(t, backend)[3]
	postmaster := statOf(t, parent)
	ticks := ticksOf(t, postmaster[13:17]) // its own, and those of backends that have ended
	processes, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, p := range processes {
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + p.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		if fields := fieldsOf(string(text)); fields[3] == parent {
			ticks += ticksOf(t, fields[13:15])
		}
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), time.Duration(ticks) * 10 * time.Millisecond
}

// statOf are the fields of proc_pid_stat(5), from 0.
func statOf(t testing.TB, pid string) []string {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	require.NoError(t, err, "the server must run on this machine")
	return fieldsOf(string(text))
}

// fieldsOf gives the name of the program, which may hold spaces, one field.
func fieldsOf(stat string) []string {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	return append([]string{strings.TrimSpace(stat[:open]), stat[open : end+1]}, strings.Fields(stat[end+1:])...)
}

// ticksOf sums up times, of which the kernel shows a hundred a second.
func ticksOf(t testing.TB, fields []string) (sum int64) {
	for _, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		require.NoError(t, err)
		sum += n
	}
	return sum
}
