package crash

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
)

// Options are on the command line of every suite.
type Options struct {
	JSONFile string // for the report
	Binary   string // built with the tag holdpoint_crash; "" has it built
	Short    bool   // a sample
	Verbose  bool
	Keep     bool   // the logs of all processes, also where nothing broke
	Seed     uint64 // what a sample is drawn from
}

// Flags reads them. short and verbose say what they do in this suite.
func (o *Options) Flags(flags *flag.FlagSet, short, verbose string) {
	flags.StringVar(&o.JSONFile, "json", "", "`file` for the report as JSON")
	flags.BoolVar(&o.Short, "short", false, short)
	flags.Uint64Var(&o.Seed, "seed", 0, "what --short draws from; 0 takes a new one, which is printed")
	flags.StringVar(&o.Binary, "binary", "", "`file` built with the tag holdpoint_crash; default: build it")
	flags.BoolVar(&o.Verbose, "verbose", false, verbose)
	flags.BoolVar(&o.Keep, "keep", false, "keep the logs of all processes also where nothing broke")
}

// Draw takes a new seed where none was given.
func (o *Options) Draw() {
	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1_000_000) + 1
	}
}

// Report is what a suite comes to.
type Report interface {
	Held() bool   // every promise was kept
	Text() string // for people
	Document() ([]byte, error)
}

// Run runs a suite in a directory that is thrown away unless something broke, prints and stores its report, and returns the exit code: 0
// where every promise was kept, 1 where not.
func Run(name string, o *Options, out, progress io.Writer, suite func(dir string) (Report, error)) int {
	r, err := inDirectory(o, progress, suite)
	if err == nil {
		err = write(out, r, o.JSONFile)
	}
	if err != nil {
		fmt.Fprintf(progress, "loadtest %s: %v\n", name, err)
		return 1
	}
	if !r.Held() {
		return 1
	}
	return 0
}

func inDirectory(o *Options, progress io.Writer, suite func(dir string) (Report, error)) (Report, error) {
	dir, err := makeDir()
	if err != nil {
		return nil, err
	}
	r, err := suite(dir)
	if err == nil && r.Held() && !o.Keep {
		_ = os.RemoveAll(dir)
	} else {
		fmt.Fprintf(progress, "The logs of all processes are in %s.\n", dir)
	}
	return r, err
}

// makeDir makes the directory of a run.
func makeDir() (string, error) {
	dir, err := os.MkdirTemp("/var/tmp", "holdpoint-crash-")
	if err != nil {
		return "", fmt.Errorf("make a directory for the suite: %w", err)
	}
	if err := os.Chmod(dir, 0o711); err != nil { // Postgres may run under another account
		return "", fmt.Errorf("open the suite's directory to Postgres: %w", err)
	}
	return dir, nil
}

// write prints the report and, where a file is named, stores the JSON.
func write(out io.Writer, r Report, file string) error {
	if _, err := io.WriteString(out, r.Text()); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	if file == "" {
		return nil
	}
	document, err := r.Document()
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	if err := os.WriteFile(file, document, 0o644); err != nil {
		return fmt.Errorf("store the report: %w", err)
	}
	return nil
}

// Origin says what a sample was drawn from, "" where all was run.
func Origin(short bool, seed uint64) string {
	if !short {
		return ""
	}
	return fmt.Sprintf(", drawn from --seed %d", seed)
}
