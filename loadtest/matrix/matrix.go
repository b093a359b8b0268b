package matrix

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/loadtest/crash"
)

// options are the command line.
type options struct {
	jsonFile, binary, only string
	short, verbose, keep   bool
	seed                   uint64
	worlds                 int
}

// shortCells is the size of the sample of --short.
const shortCells = 40

// Command runs the matrix and returns 0 where all promises held, 1 where not, 2 for bad flags.
func Command(ctx context.Context, args []string, out, progress io.Writer) int {
	opts, err := parse(args, progress)
	if err != nil {
		fmt.Fprintln(progress, "loadtest matrix:", err)
		return 2
	}
	r, err := run(ctx, opts, progress)
	if err == nil {
		err = r.write(out, opts.jsonFile)
	}
	if err != nil {
		fmt.Fprintln(progress, "loadtest matrix:", err)
		return 1
	}
	if !r.held() {
		return 1
	}
	return 0
}

func parse(args []string, output io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("loadtest matrix", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.jsonFile, "json", "", "`file` for the report as JSON")
	flags.BoolVar(&o.short, "short", false, "a sample, drawn from --seed, with every profile, fault and death")
	flags.Uint64Var(&o.seed, "seed", 0, "what --short draws from; 0 takes a new one, which is printed")
	flags.StringVar(&o.only, "only", "", "run the cells of this `PROFILE/FAULT/DEATH` alone; a part that is * or left out is any")
	flags.StringVar(&o.binary, "binary", "", "`file` built with the tag holdpoint_crash; default: build it")
	flags.IntVar(&o.worlds, "worlds", 1, "worlds to share the cells; most of a cell's time is waiting")
	flags.BoolVar(&o.verbose, "verbose", false, "print each death as it comes")
	flags.BoolVar(&o.keep, "keep", false, "keep the logs of all processes also where nothing broke")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	if o.worlds < 1 {
		return o, fmt.Errorf("--worlds %d is fewer than one", o.worlds)
	}
	if len(choose(o)) == 0 {
		return o, fmt.Errorf("--only %q is no cell", o.only)
	}
	return o, nil
}

// choose are the cells to run.
func choose(o options) []*cell {
	switch {
	case o.only != "":
		return matching(all(), o.only)
	case o.short:
		return sample(all(), o.seed, shortCells)
	}
	return all()
}

// run does it all, in a directory that is thrown away unless something broke.
func run(ctx context.Context, opts options, progress io.Writer) (r *report, err error) {
	began := time.Now()
	dir, err := crash.MakeDir()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err == nil && r.held() && !opts.keep {
			_ = os.RemoveAll(dir)
		} else {
			fmt.Fprintf(progress, "The logs of all processes are in %s.\n", dir)
		}
	}()
	if opts.binary == "" {
		if opts.binary, err = crash.Build(ctx, dir); err != nil {
			return nil, err
		}
	}
	cells := choose(opts)
	name(cells, uuid.NewString()[:8])
	if opts.short {
		fmt.Fprintf(progress, "A sample of the cells, drawn from --seed %d.\n", opts.seed)
	}
	groups := make([]group, min(opts.worlds, len(cells)))
	for i, c := range cells {
		g := &groups[i%len(groups)]
		g.cells = append(g.cells, c)
	}
	var playing errgroup.Group
	for i := range groups {
		playing.Go(func() error {
			return groups[i].play(ctx, opts, filepath.Join(dir, fmt.Sprint("world-", i+1)), progress)
		})
	}
	if err := playing.Wait(); err != nil {
		return nil, err
	}
	r = newReport(opts, groups)
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

// group are cells that share a world, and what became of each, in their order.
type group struct {
	cells  []*cell
	became []*facts
	broken []string // that belongs to no cell
}

// play runs the cells in a world of their own.
func (g *group) play(ctx context.Context, opts options, dir string, progress io.Writer) error {
	if err := os.Mkdir(dir, 0o711); err != nil { // Postgres may run under another account
		return fmt.Errorf("make a directory for a world: %w", err)
	}
	log := slog.New(slog.NewTextHandler(progress, &slog.HandlerOptions{Level: slog.LevelError}))
	w, err := crash.Open(ctx, dir, opts.binary, log, edits()...)
	if err != nil {
		return err
	}
	defer w.Close()
	p := &player{World: w, progress: progress, verbose: opts.verbose}
	g.became, g.broken, err = p.play(ctx, g.cells)
	return err
}
