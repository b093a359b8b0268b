// Package migrations embeds the SQL files that make and change the shared database, one file a change.
package migrations

import "embed"

// FS holds the goose migrations.
//
//go:embed *.sql
var FS embed.FS
