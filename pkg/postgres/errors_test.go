package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/postgres"
)

func TestErrorClasses(t *testing.T) {
	t.Parallel()
	state := func(code string) error { return fmt.Errorf("claim: %w", &pgconn.PgError{Code: code}) }
	for name, c := range map[string]struct {
		err             error
		retryable, data bool
	}{
		"ConnectionException":       {state("08006"), true, false},
		"SerializationFailure":      {state("40001"), true, false},
		"Deadlock":                  {state("40P01"), true, false},
		"TooManyConnections":        {state("53300"), true, false},
		"DiskFull":                  {state("53100"), true, false},
		"LockNotAvailable":          {state("55P03"), true, false},
		"StatementTimeout":          {state("57014"), true, false},
		"AdminShutdown":             {state("57P01"), true, false},
		"StartingUp":                {state("57P03"), true, false},
		"IOError":                   {state("58030"), true, false},
		"IdleInTransactionTimeout":  {state("25P03"), true, false},
		"InvalidText":               {state("22P02"), false, true},
		"NumberOutOfRange":          {state("22003"), false, true},
		"UniqueViolation":           {state("23505"), false, true},
		"CheckViolation":            {state("23514"), false, true},
		"SyntaxErrorIsNeither":      {state("42601"), false, false},
		"MissingGrantIsNeither":     {state("42501"), false, false},
		"FailedTransactionIs":       {state("25P02"), false, false},
		"CorruptionIsNeither":       {state("XX001"), false, false},
		"RefusedConnection":         {&net.OpError{Op: "dial", Err: errors.New("refused")}, true, false},
		"ClosedSocket":              {fmt.Errorf("read: %w", net.ErrClosed), true, false},
		"UnexpectedEnd":             {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), true, false},
		"PassedDeadline":            {context.DeadlineExceeded, true, false},
		"CancelledByShutdown":       {context.Canceled, true, false},
		"ErrorOfTheCallerIsNeither": {errors.New("quorum not reached"), false, false},
		"NilIsNeither":              {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.retryable, postgres.Retryable(c.err), "retryable")
			require.Equal(t, c.data, postgres.DataError(c.err), "data error")
			require.False(t, postgres.CommitUnknown(c.err), "nothing here came from COMMIT")
		})
	}
}
