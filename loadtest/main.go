package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdpoint/holdpoint/loadtest/crash"
	"github.com/holdpoint/holdpoint/loadtest/matrix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:]))
}

// command returns 0 where all promises held, 1 where one was broken or the run failed, 2 for bad flags.
func command(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == "crash" {
		return crash.Command(ctx, args[1:], os.Stdout, os.Stderr)
	}
	if len(args) > 0 && args[0] == "matrix" {
		return matrix.Command(ctx, args[1:], os.Stdout, os.Stderr)
	}
	opts, err := parseFlags(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "loadtest:", err)
		return 2
	}
	report, err := drive(ctx, opts, os.Stderr)
	if err == nil {
		err = report.write(os.Stdout, opts.jsonFile)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "loadtest:", err)
		return 1
	}
	if len(report.broken) > 0 {
		return 1
	}
	return 0
}

// parseFlags reads and checks the command line.
func parseFlags(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("loadtest", flag.ContinueOnError)
	flags.StringVar(&o.readyFile, "ready-file", "", "JSON `file` that `holdpoint up` writes (required)")
	flags.StringVar(&o.flow, "flow", "auto", "auto: routed by policy alone; review: decided by people")
	flags.StringVar(&o.door, "door", doorHTTP, "http, nats or both")
	flags.IntVar(&o.keys, "keys", 0, "distinct keys; 0 with --duration is as many as fit (default 1000 otherwise)")
	flags.IntVar(&o.duplicates, "duplicates", 1, "deliveries of each key, all byte-identical")
	flags.Float64Var(&o.rate, "rate", 0, "deliveries due per second over all doors; 0 is flat out")
	flags.DurationVar(&o.duration, "duration", 0, "start no delivery after this time; 0 is no limit")
	flags.IntVar(&o.concurrency, "concurrency", 256, "deliveries in flight per door")
	flags.IntVar(&o.deciders, "deciders", 16, "decisions in flight, of --flow review")
	flags.Float64Var(&o.rejectShare, "reject-share", 0, "share of --flow review that is turned down, 0 to 1")
	flags.DurationVar(&o.settle, "settle", 30*time.Second, "give up on open runs after this time without any progress")
	flags.StringVar(&o.jsonFile, "json", "", "`file` for the report as JSON")
	flags.BoolVar(&o.skipPostgresOnly, "skip-postgres-only", false, "do not measure what Postgres alone can do")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	return o, o.validate()
}
