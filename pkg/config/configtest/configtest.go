// Package configtest makes configurations for tests and load tests, in which everything that connectors declare counts, with nobody
// having proved it. It is not for configurations that reach anything but a sandbox: there, `holdpoint connector check` proves what is
// declared, and a person attests the rest.
package configtest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// AttestAll overwrites the checks.yaml of every tenant of a configuration directory with one that attests all that is declared.
func AttestAll(dir string) error {
	files, err := Attested(os.DirFS(dir), os.LookupEnv)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), text, 0o644); err != nil {
			return fmt.Errorf("attest what the test's connectors declare: %w", err)
		}
	}
	return nil
}

// Attested is that checks.yaml of every tenant, by its name below the configuration directory. The error is the loader's.
func Attested(fsys fs.FS, getenv func(name string) (string, bool)) (map[string][]byte, error) {
	cfg, err := config.LoadDeclared(fsys, getenv)
	if err != nil {
		return nil, fmt.Errorf("attest what the test's connectors declare: %w", err)
	}
	files := map[string][]byte{}
	for _, t := range cfg.Tenants {
		var checks []*config.Check
		for _, c := range t.Connectors {
			for _, op := range c.Operations {
				checks = append(checks, attested(c, op))
			}
		}
		files[path.Join("tenants", t.ID, "checks.yaml")] = config.FormatChecks(checks)
	}
	return files, nil
}

func attested(c *config.Connector, op *config.Operation) *config.Check {
	a := &config.Attestation{By: "nobody", At: time.Now(), How: "A test says so."}
	for _, claim := range op.Standing.Claims {
		a.Capabilities = append(a.Capabilities, claim.Capability)
	}
	return &config.Check{Connector: c.ID, Operation: op.Name, Digest: op.Standing.Digest, Attested: a}
}

// Without is the same configuration in memory, with these capabilities taken out of every checks.yaml.
func Without(fsys fs.FS, getenv func(name string) (string, bool), capabilities ...string) (fs.FS, error) {
	cfg, err := config.LoadDeclared(fsys, getenv)
	if err != nil {
		return nil, fmt.Errorf("take back what was proved: %w", err)
	}
	files := overlay{fsys, map[string][]byte{}}
	gone := func(name string) bool { return slices.Contains(capabilities, name) }
	for _, t := range cfg.Tenants {
		for _, c := range t.Checks {
			if c.Proved != nil {
				c.Proved.Capabilities = slices.DeleteFunc(c.Proved.Capabilities, gone)
			}
			if c.Attested != nil {
				c.Attested.Capabilities = slices.DeleteFunc(c.Attested.Capabilities, gone)
			}
		}
		files.over[path.Join("tenants", t.ID, "checks.yaml")] = config.FormatChecks(t.Checks)
	}
	return files, nil
}

// overlay has other contents of some of the files.
type overlay struct {
	fs.FS
	over map[string][]byte
}

// ReadFile is fs.ReadFileFS.
func (o overlay) ReadFile(name string) ([]byte, error) {
	if text, ok := o.over[name]; ok {
		return text, nil
	}
	return fs.ReadFile(o.FS, name)
}
