package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
)

// commitError marks an error as coming from COMMIT itself, the one statement whose failure may hide a success.
type commitError struct{ err error }

func (e *commitError) Error() string { return "commit transaction: " + e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// Retryable reports whether the whole batch may be tried again, later and unchanged: the fault lies in the
// connection, in a lost race, in resources or in an operator's doing, not in the data. It covers SQLSTATE classes 08,
// 40, 53, 55, 57 and 58, the idle-in-transaction timeout (25P03), and lost connections and deadlines that never
// reached the server. An outage must park nothing, so no item may be blamed for one of these.
func Retryable(err error) bool {
	if code := stateOf(err); code != "" {
		return inClasses(code, "08", "40", "53", "55", "57", "58") || code == "25P03"
	}
	return unreachable(err)
}

// DataError reports whether the data of some item is at fault (SQLSTATE classes 22 and 23): only these errors split a
// batch to find the bad item.
func DataError(err error) bool { return inClasses(stateOf(err), "22", "23") }

// CommitUnknown reports whether the transaction may have been committed although an error came back: the connection
// was lost, or the server was shutting down, while COMMIT was under way (STO-04). The caller looks up what it wrote
// by its command's id before it does anything again.
func CommitUnknown(err error) bool {
	var atCommit *commitError
	if !errors.As(err, &atCommit) {
		return false
	}
	if errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pgx.ErrTxClosed) {
		return false
	}
	code := stateOf(err)
	// A definite answer of the server means that nothing was stored. A shutdown, though, may be reported after the
	// commit record was written.
	return code == "" || inClasses(code, "08", "57", "58")
}

// stateOf is the SQLSTATE that the server answered with, or empty.
func stateOf(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

func inClasses(code string, classes ...string) bool {
	for _, class := range classes {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}

// unreachable recognises a connection that could not be had, broke, or was given up on.
func unreachable(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	if errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) {
		return true
	}
	for _, known := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, os.ErrDeadlineExceeded, syscall.ECONNRESET, syscall.EPIPE,
		syscall.ECONNREFUSED, context.DeadlineExceeded, context.Canceled, puddle.ErrClosedPool,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
