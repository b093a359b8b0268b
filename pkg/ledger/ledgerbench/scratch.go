package ledgerbench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/migrations"
	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// dropPatience bounds the drop of the scratch database, which outlives the caller's context.
const dropPatience = 30 * time.Second

// scratch is a database that exists for one measurement.
type scratch struct {
	server string // the caller's address
	name   string
	url    string
}

func newScratch(ctx context.Context, server string) (*scratch, error) {
	address, err := url.Parse(server)
	if err != nil || address.Host == "" {
		return nil, errors.New("the database's address must be one like postgres://user:password@host:5432/name")
	}
	s := &scratch{server: server, name: "holdpoint_measure_" + strings.ReplaceAll(uuid.NewString(), "-", "")}
	address.Path = "/" + s.name
	s.url = address.String()
	if err := s.admin(ctx, "create database "+s.name); err != nil {
		return nil, fmt.Errorf("create the scratch database: %w", err)
	}
	if err := postgres.Migrate(ctx, s.url, migrations.FS); err != nil {
		return nil, errors.Join(err, s.drop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *scratch) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dropPatience)
	defer cancel()
	if err := s.admin(ctx, "drop database if exists "+s.name+" with (force)"); err != nil {
		return fmt.Errorf("drop the scratch database %s; drop it by hand: %w", s.name, err)
	}
	return nil
}

// admin runs one statement on the database that the caller named.
func (s *scratch) admin(ctx context.Context, statement string) (err error) {
	conn, err := pgx.Connect(ctx, s.server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, statement)
	return err
}
