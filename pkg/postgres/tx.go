package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// commitPatience is how long a commit or a rollback may take after the work itself is done.
const commitPatience = 10 * time.Second

// Beginner is what InTx needs: a pool or a single connection.
type Beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// InTx runs work in one READ COMMITTED transaction: a nil result commits, an error or a panic rolls back. The commit
// does not use the caller's context: a client that goes away, or a deadline that passes, between the work and its
// commit would otherwise turn a stored row into a reported failure. When the connection is lost while committing,
// CommitUnknown(err) is true, and the caller looks up by its command's id what became of it.
func InTx(ctx context.Context, db Beginner, work func(pgx.Tx) error) error {
	tx, err := db.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	finished := false
	defer func() {
		if !finished {
			rollback(ctx, tx) // Reached on a panic in work, and on runtime.Goexit by a failed test.
		}
	}()
	if err := work(tx); err != nil {
		finished = true
		return errors.Join(err, rollback(ctx, tx))
	}
	finished = true
	return commit(ctx, tx)
}

func commit(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := outliving(ctx)
	defer cancel()
	if err := tx.Commit(ctx); err != nil {
		return &commitError{err}
	}
	return nil
}

// rollback reports nothing about a connection that is gone: the server has rolled back by itself.
func rollback(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := outliving(ctx)
	defer cancel()
	err := tx.Rollback(ctx)
	if err == nil || errors.Is(err, pgx.ErrTxClosed) || tx.Conn().IsClosed() {
		return nil
	}
	return fmt.Errorf("roll back transaction: %w", err)
}

// outliving keeps the values of ctx (the trace) and replaces its end by a deadline of its own.
func outliving(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), commitPatience)
}
