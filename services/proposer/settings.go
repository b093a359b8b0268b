package proposer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/client"
)

// Settings are read from HOLDPOINT_PROPOSER_….
type Settings struct {
	IntakeURL string `split_words:"true"` // of the intake service, without /v1
	// APIKeysDir holds a file for each tenant that has work here, named by the tenant's id, with an API key of the scope
	// work. A mounted Secret is such a folder.
	APIKeysDir string `split_words:"true"`
}

// Queues is where the work comes from, for Config.
func (s Settings) Queues() (func(tenant string) (Queue, error), error) {
	if s.IntakeURL == "" || s.APIKeysDir == "" {
		return nil, errors.New("HOLDPOINT_PROPOSER_INTAKE_URL and HOLDPOINT_PROPOSER_API_KEYS_DIR must be set")
	}
	return func(tenant string) (Queue, error) {
		key, err := os.ReadFile(filepath.Join(s.APIKeysDir, tenant))
		if err != nil {
			return nil, fmt.Errorf("read the API key, which must stand in a file named by the tenant: %w", err)
		}
		return client.New(client.Config{BaseURL: s.IntakeURL, APIKey: strings.TrimSpace(string(key))})
	}, nil
}
