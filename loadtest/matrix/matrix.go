package matrix

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/loadtest/crash"
)

// options are the command line.
type options struct {
	crash.Options
	only   string
	worlds int
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
	return crash.Run("matrix", &opts.Options, out, progress, func(dir string) (crash.Report, error) {
		return run(ctx, opts, dir, progress)
	})
}

func parse(args []string, output io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("loadtest matrix", flag.ContinueOnError)
	flags.SetOutput(output)
	o.Flags(flags, "a sample, drawn from --seed, with every profile, fault and death", "print each death as it comes")
	flags.StringVar(&o.only, "only", "", "run the cells of this `PROFILE/FAULT/DEATH` alone; a part that is * or left out is any")
	flags.IntVar(&o.worlds, "worlds", 1, "worlds to share the cells; most of a cell's time is waiting")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.Draw()
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
	case o.Short:
		return sample(all(), o.Seed, shortCells)
	}
	return all()
}

// run does it all in a directory.
func run(ctx context.Context, opts options, dir string, progress io.Writer) (_ *report, err error) {
	began := time.Now()
	if opts.Binary == "" {
		if opts.Binary, err = crash.Build(ctx, dir); err != nil {
			return nil, err
		}
	}
	cells := choose(opts)
	name(cells, uuid.NewString()[:8])
	if opts.Short {
		fmt.Fprintf(progress, "A sample of the cells, drawn from --seed %d.\n", opts.Seed)
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
	r := newReport(opts, groups)
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
	w, err := crash.Open(ctx, dir, opts.Binary, log, edits()...)
	if err != nil {
		return err
	}
	defer w.Close()
	p := &player{World: w, progress: progress, verbose: opts.Verbose}
	g.became, g.broken, err = p.play(ctx, g.cells)
	return err
}
