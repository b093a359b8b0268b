package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/fault"
)

// options are the command line.
type options struct {
	Options
	flow *flow
	only *regexp.Regexp // nil: all cases
}

// Patience of the suite. A case is over in seconds, its healing in most of a minute: an effect that the reconciler
// had taken up when it died comes again after 45 seconds.
const (
	casePatience   = 45 * time.Second
	settlePatience = 2 * time.Minute
	shortCases     = 16
)

// Command runs the suite and returns 0 where all promises held and every boundary was reached, 1 where not, 2 for
// bad flags.
func Command(ctx context.Context, args []string, out, progress io.Writer) int {
	opts, err := parse(args, progress)
	if err != nil {
		fmt.Fprintln(progress, "loadtest crash:", err)
		return 2
	}
	return Run("crash", &opts.Options, out, progress, func(dir string) (Report, error) { return run(ctx, opts, dir, progress) })
}

func parse(args []string, output io.Writer) (options, error) {
	var o options
	var only, flow string
	flags := flag.NewFlagSet("loadtest crash", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&flow, "flow", autoFlow.name, "auto: routed by policy alone; review: decided by people")
	o.Flags(flags, "a sample, drawn from --seed: of auto it covers every service and kind, of review every boundary",
		"print each case as it ends, and how it went")
	flags.StringVar(&only, "only", "", "run the cases that this `pattern` matches, such as dispatcher/lease@mid")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.flow, err = flowNamed(flow); err != nil {
		return o, err
	}
	if only != "" {
		if o.only, err = regexp.Compile(only); err != nil {
			return o, fmt.Errorf("--only: %w", err)
		}
	}
	o.Draw()
	return o, nil
}

// run does it all in a directory.
func run(ctx context.Context, opts options, dir string, progress io.Writer) (*report, error) {
	began := time.Now()
	s := &suite{opts: opts, progress: progress, prefix: uuid.NewString()[:8], results: map[string]string{}}
	if err := s.prepare(ctx, dir); err != nil {
		return nil, err
	}
	r, err := s.play(ctx, dir)
	if err == nil {
		r.Seconds = time.Since(began).Seconds()
	}
	return r, err
}

// suite is one run of the suite.
type suite struct {
	opts     options
	progress io.Writer
	prefix   string // of all keys
	binary   string
	sites    []fault.Site // that this run has to reach
	cases    []testCase

	expected []expected
	results  map[string]string // by case: "" where it went as it should
	statuses map[string]int
	broken   []string
}

func (s *suite) say(format string, args ...any) { fmt.Fprintf(s.progress, format+"\n", args...) }

// prepare builds the program and chooses the cases.
func (s *suite) prepare(ctx context.Context, dir string) (err error) {
	if s.binary = s.opts.Binary; s.binary == "" {
		if s.binary, err = Build(ctx, dir); err != nil {
			return err
		}
	}
	all, err := listSites(ctx, s.binary)
	if err != nil {
		return err
	}
	f := s.opts.flow
	if err := f.undeclared(all); err != nil {
		return err
	}
	s.sites, s.cases = f.reaches(all), f.casesOf(all)
	if s.opts.Short {
		s.say("A sample of the cases, drawn from --seed %d.", s.opts.Seed)
		s.cases = f.short(s.cases, kindsOf(all), s.opts.Seed)
	}
	if s.opts.only != nil {
		s.cases = slices.DeleteFunc(s.cases, func(c testCase) bool { return !s.opts.only.MatchString(c.String()) })
	}
	if len(s.cases) == 0 {
		return errors.New("no case is left to run")
	}
	if s.opts.Short || s.opts.only != nil {
		s.sites = slices.DeleteFunc(s.sites, func(site fault.Site) bool {
			return !slices.ContainsFunc(s.cases, func(c testCase) bool { return c.site == site.String() })
		})
	}
	return nil
}

// play runs the cases one after the other, waits until all that they left behind has come to rest, and judges.
func (s *suite) play(ctx context.Context, dir string) (*report, error) {
	level := slog.LevelError
	if s.opts.Verbose {
		level = slog.LevelWarn
	}
	log := slog.New(slog.NewTextHandler(s.progress, &slog.HandlerOptions{Level: level}))
	w, err := newWorld(ctx, dir, s.binary, s.opts.flow, log)
	defer w.close()
	if err != nil {
		return nil, err
	}
	s.statuses = map[string]int{}
	struck := map[string]bool{}
	for n, c := range s.cases {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s.try(ctx, w, c, n+1) {
			struck[c.site] = true
		}
	}
	s.say("%d deaths; waiting for everything to come to rest.", len(s.cases))
	is, err := s.settle(ctx, w, settlePatience)
	if err != nil {
		return nil, err
	}
	reached, err := readReached(w.reachedFile())
	if err != nil {
		return nil, err
	}
	found := check(s.expected, is)
	found.broken = append(append(s.broken, w.surprises()...), found.broken...)
	return s.report(found, is, unreached(s.sites, reached, struck)), nil
}

// try runs one case and reports whether the process was struck where it should.
func (s *suite) try(ctx context.Context, w *world, c testCase, n int) bool {
	began := time.Now()
	t := w.newTrial(c, s.prefix, n)
	s.expected = append(s.expected, expected{name: c.String(), key: t.key, run: t.runID, ends: c.ends, asks: c.refunds(), staged: c.staged})
	ctx, cancel := context.WithTimeout(ctx, casePatience)
	defer cancel()
	err := t.run(ctx, t)
	if err == nil && c.ends != parked {
		err = t.duplicate(ctx)
	}
	err = errors.Join(err, w.ensure())
	if t.struck != "" {
		s.statuses[t.struck]++
	}
	if err != nil {
		s.results[c.String()] = err.Error()
		s.broken = append(s.broken, fmt.Sprintf("%s: %v", c, err))
		s.say("FAILED  %s: %v", c, err)
	} else {
		s.results[c.String()] = ""
		if s.opts.Verbose {
			s.say("%5.1f s  %s  %s", time.Since(began).Seconds(), c, t.struck)
		}
	}
	return t.struck != ""
}

// settle waits until nothing more happens by itself. Where that does not come to be, the check says what is stuck.
func (s *suite) settle(ctx context.Context, w *world, patience time.Duration) (is facts, err error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = poll(waiting, "everything to come to rest", func() (bool, error) {
		is, err = w.gather(waiting)
		return err == nil && settled(s.expected, is), err
	})
	if err != nil && ctx.Err() == nil {
		is, err = w.gather(ctx)
	}
	if err == nil {
		err = w.gatherMessages(ctx, &is.people)
	}
	return is, err
}
