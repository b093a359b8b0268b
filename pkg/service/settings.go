package service

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/kelseyhightower/envconfig"
)

// prefix comes before the name of every setting, as in HOLDPOINT_DATABASE_URL.
const prefix = "HOLDPOINT"

// Settings are what every service reads from the environment. Variables are named after the fields (split_words) and
// not by the envconfig tag, because a tag is also read without the prefix: a stray DATABASE_URL must not be taken for
// ours. A service's own settings are declared beside it.
type Settings struct {
	DatabaseURL         string        `split_words:"true"`             // login user: a member of holdpoint_<service>
	DatabaseConnections int32         `split_words:"true" default:"8"` // largest pool
	NatsURL             string        `split_words:"true"`
	ConfigDir           string        `split_words:"true" default:"/etc/holdpoint"`
	OpsAddr             string        `split_words:"true" default:":9090"` // health and metrics
	LogLevel            slog.Level    `split_words:"true" default:"info"`
	DrainTimeout        time.Duration `split_words:"true" default:"25s"` // then what still runs is given up
	// PolicyActivation says what becomes of a policy in the files that is not the active one (P7).
	PolicyActivation PolicyActivation `split_words:"true" default:"explicit"`
}

// PolicyActivation is who makes a version of a policy the active one.
type PolicyActivation string

// Ways of activation. Of a tenant that has no active policy yet, the files' becomes the first in either way.
const (
	ActivateExplicitly PolicyActivation = "explicit" // an operator does, with `holdpoint policy activate`
	ActivateFiles      PolicyActivation = "files"    // a start does, with what its files hold and nobody has stored before
)

// Decode reads the setting.
func (p *PolicyActivation) Decode(text string) error {
	switch *p = PolicyActivation(text); *p {
	case ActivateExplicitly, ActivateFiles:
		return nil
	}
	return fmt.Errorf("%q is no way to activate policies, allowed: %s, %s", text, ActivateExplicitly, ActivateFiles)
}

// Load reads the environment into a struct. An empty name is the common settings; the settings of service "intake" are
// read from HOLDPOINT_INTAKE_….
func Load(name string, into any) error {
	full := prefix
	if name != "" {
		full += "_" + name
	}
	if err := envconfig.Process(full, into); err != nil {
		return fmt.Errorf("read the settings %s_…: %w", full, err)
	}
	return nil
}

// NewLogger writes JSON lines to standard error.
func NewLogger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}
