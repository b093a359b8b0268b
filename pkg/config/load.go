package config

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// tenantsDir holds one folder a tenant, named by its id.
const tenantsDir = "tenants"

// Files of a tenant's folder; besides them it holds schemas/*.json, prompts/*.tmpl, messages/*.tmpl and samples/*.json.
const (
	tenantFile     = "tenant.yaml"
	sourcesFile    = "sources.yaml"
	actionsFile    = "actions.yaml"
	policyFile     = "policy.yaml"
	connectorsFile = "connectors.yaml"
	peopleFile     = "people.yaml"
	testsFile      = "policy_tests.yaml"
	schemasDir     = "schemas"
)

// LoadDir is Load of a directory.
func LoadDir(dir string) (*Config, error) { return Load(os.DirFS(dir)) }

// Load reads and checks a configuration directory: tenants/<id>/{tenant,sources,actions,policy,connectors}.yaml,
// tenants/<id>/people.yaml, policy_tests.yaml and checks.yaml where there are, and tenants/<id>/schemas/*.json. Its error joins an *Error for
// everything that is wrong, each with file, line and column. Where a connector's base_url, allowed_hosts, bearer_env,
// bearer_file, username, token_url or client_id or a channel's url, allowed_hosts, secret or server hold ${NAME} or ${NAME:-default}, the environment of
// the process is read.
func Load(fsys fs.FS) (*Config, error) { return LoadEnv(fsys, os.LookupEnv) }

// LoadEnv is Load with another environment.
func LoadEnv(fsys fs.FS, getenv func(name string) (string, bool)) (*Config, error) {
	return LoadAt(fsys, getenv, time.Now())
}

// LoadAt is LoadEnv at another time, by which it is told which checks of connectors are too old to count.
func LoadAt(fsys fs.FS, getenv func(name string) (string, bool), now time.Time) (*Config, error) {
	return (&loader{fsys: fsys, getenv: getenv, now: now, files: map[string][]byte{}}).load()
}

// LoadDeclared is LoadEnv with all that connectors declare taken for true. It is for what checks that: effects are never sent by such a
// configuration. Operation.Standing says what would count.
func LoadDeclared(fsys fs.FS, getenv func(name string) (string, bool)) (*Config, error) {
	return (&loader{fsys: fsys, getenv: getenv, now: time.Now(), trusting: true, files: map[string][]byte{}}).load()
}

func (l *loader) load() (*Config, error) {
	tenants := l.tenants()
	if err := l.join(); err != nil {
		return nil, fmt.Errorf("the configuration cannot be used, %d to mend:\n%w", len(l.list), err)
	}
	return &Config{Tenants: tenants, Version: l.version(), Warnings: l.warnings}, nil
}

type loader struct {
	problems

	fsys   fs.FS
	getenv func(string) (string, bool)
	now    time.Time
	files  map[string][]byte // all that was read

	trusting bool // all that is declared counts
	warnings []Warning
}

// read is nil, and a problem at the place that asks for it, where there is no such file.
func (l *loader) read(file string, asked Position) []byte {
	if data, ok := l.files[file]; ok {
		return data
	}
	data, err := fs.ReadFile(l.fsys, file)
	if errors.Is(err, fs.ErrNotExist) {
		l.add(asked, "there is no file %s", file)
		return nil
	}
	if err != nil {
		l.add(asked, "reading %s: %v", file, err)
		return nil
	}
	l.files[file] = data
	return data
}

// version is a digest of the names and bytes of all files, each with its length, so that no two sets run together.
func (l *loader) version() string {
	h := sha256.New()
	var size [8]byte
	write := func(data []byte) {
		binary.BigEndian.PutUint64(size[:], uint64(len(data)))
		h.Write(size[:])
		h.Write(data)
	}
	for _, name := range slices.Sorted(maps.Keys(l.files)) {
		write([]byte(name))
		write(l.files[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// tenants reads every folder. Names that begin with a dot are skipped: a mounted ConfigMap has such entries of its own.
func (l *loader) tenants() []*Tenant {
	entries, err := fs.ReadDir(l.fsys, tenantsDir)
	if err != nil {
		l.add(Position{File: tenantsDir}, "cannot be listed: %v; it must hold one folder for each tenant", err)
		return nil
	}
	var tenants []*Tenant
	for _, entry := range entries {
		folder := path.Join(tenantsDir, entry.Name())
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if info, err := fs.Stat(l.fsys, folder); err != nil || !info.IsDir() { // Stat follows a ConfigMap's links
			l.add(Position{File: folder}, "must be a folder that is named by a tenant's id")
			continue
		}
		tenants = append(tenants, l.tenant(entry.Name(), folder))
	}
	if len(tenants) == 0 {
		l.add(Position{File: tenantsDir}, "holds no tenant; it must hold one folder for each")
	}
	return tenants
}

// declared is a tenant with the places where its parts were written, for checks across files.
type declared struct {
	*Tenant

	loader    *loader
	folder    string
	places    map[any]*object // a *Source, *Draft, *Action, *Rule, *Exception, *Evaluation, *Connector, *Role, *Channel or keyName to where it stands
	hasPeople bool            // whether there is a people.yaml
	hasTests  bool            // whether there is a policy_tests.yaml
	hasChecks bool            // whether there is a checks.yaml
}

// reading is a file and what reads it.
type reading struct {
	file string
	read func(*object)
}

func (l *loader) tenant(id, folder string) *Tenant {
	if !tenantID.pattern.MatchString(id) {
		l.add(Position{File: folder}, "the folder's name is the tenant's id, allowed: %s", tenantID.words)
	}
	d := &declared{Tenant: &Tenant{ID: id}, loader: l, folder: folder, places: map[any]*object{}}
	d.checkNames()
	complete := true
	readings := []reading{
		{tenantFile, d.readTenant},
		{connectorsFile, d.readConnectors},
		{sourcesFile, d.readSources},
		{actionsFile, d.readActions},
		{policyFile, d.readRules},
	}
	if d.hasPeople {
		readings = append(readings, reading{peopleFile, d.readPeople})
	}
	if d.hasTests {
		readings = append(readings, reading{testsFile, d.readPolicyTests})
	}
	if d.hasChecks {
		readings = append(readings, reading{checksFile, d.readChecks})
	}
	for _, r := range readings {
		o := d.open(r.file)
		if o == nil {
			complete = false
			continue
		}
		r.read(o)
		o.close()
	}
	d.applyChecks()
	if complete { // else every reference into the missing file would be called wrong
		d.checkReferences()
	}
	d.digestPolicy()
	return d.Tenant
}

func (d *declared) open(name string) *object {
	file := path.Join(d.folder, name)
	data := d.loader.read(file, Position{File: file})
	if data == nil {
		return nil
	}
	return parseYAML(&d.loader.problems, file, data)
}

// checkNames refuses a misspelt file, which would silently declare nothing, and notes which optional ones are there.
func (d *declared) checkNames() {
	allowed := []string{tenantFile, sourcesFile, actionsFile, policyFile, connectorsFile, peopleFile, testsFile,
		checksFile, schemasDir, samplesDir, promptsDir, messagesDir}
	entries, err := fs.ReadDir(d.loader.fsys, d.folder)
	if err != nil {
		d.loader.add(Position{File: d.folder}, "cannot be listed: %v", err)
	}
	for _, entry := range entries {
		d.hasPeople = d.hasPeople || entry.Name() == peopleFile
		d.hasTests = d.hasTests || entry.Name() == testsFile
		d.hasChecks = d.hasChecks || entry.Name() == checksFile
		if !strings.HasPrefix(entry.Name(), ".") && !slices.Contains(allowed, entry.Name()) {
			d.loader.add(Position{File: path.Join(d.folder, entry.Name())}, "is not read, allowed here: %s",
				strings.Join(allowed, ", "))
		}
	}
}

// unique reports a second declaration of an id.
func unique(seen map[string]Position, o *object, name, id string) {
	if id == "" {
		return
	}
	if first, ok := seen[id]; ok {
		o.fail(name, "%s is declared already at %s", quote(id), first)
		return
	}
	seen[id] = o.at(name)
}
