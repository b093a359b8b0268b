package approval

import (
	"context"
	"errors"
	"time"

	"github.com/alexedwards/scs/pgxstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// sessionPatience is how long a page waits for its session: a database that hangs holds up nobody for longer.
const sessionPatience = 5 * time.Second

// sessionStore is the library's, with the contexts of requests, and with sessions that stay ended: a request that had loaded one
// before it was signed out, or before its token was renewed, cannot write it back. What is left of one that has ended has no data
// and goes with the expired ones.
type sessionStore struct {
	*pgxstore.PostgresStore
	pool *pgxpool.Pool
}

// FindCtx is the data of a session that lives.
func (s sessionStore) FindCtx(ctx context.Context, token string) (data []byte, exists bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sessionPatience)
	defer cancel()
	err = s.pool.QueryRow(ctx, `select data from sessions where token = $1 and expiry > current_timestamp and data <> ''`, token).Scan(&data)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	return data, err == nil, err
}

// CommitCtx stores a session unless it has ended.
func (s sessionStore) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, sessionPatience)
	defer cancel()
	_, err := s.pool.Exec(ctx, `insert into sessions (token, data, expiry) values ($1, $2, $3)
on conflict (token) do update set data = excluded.data, expiry = excluded.expiry where sessions.data <> ''`, token, data, expiry)
	return err
}

// DeleteCtx ends a session for good.
func (s sessionStore) DeleteCtx(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, sessionPatience)
	defer cancel()
	_, err := s.pool.Exec(ctx, `update sessions set data = '' where token = $1`, token)
	return err
}
