// Command mutate keeps contracts/guarantees.yaml honest: every guarantee is there, names tests that exist, and those tests fail
// when one line that keeps the promise is broken.
//
//	go run ./.ci/mutate check   the map is complete and names what exists
//	go run ./.ci/mutate run     break each line in turn (go test -overlay) and see the tests fail; -only K3,D9 takes some of them
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
)

const mapFile = "contracts/guarantees.yaml"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("say check or run")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	only := flags.String("only", "", "guarantee ids, separated by commas; empty is all")
	workers := flags.Int("workers", 2, "mutations at the same time")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	guarantees, err := load(mapFile)
	if err != nil {
		return err
	}
	if err := check(guarantees); err != nil {
		return err
	}
	kept := 0
	for _, g := range guarantees {
		if g.Status == "" {
			kept++
		}
	}
	fmt.Printf("%s: %d guarantees, %d kept, %d planned\n", mapFile, len(guarantees), kept, len(guarantees)-kept)
	if args[0] == "check" {
		return nil
	}
	return mutateAll(ctx, wanted(guarantees, *only), *workers)
}

func wanted(guarantees []guarantee, only string) []guarantee {
	var chosen []guarantee
	for _, g := range guarantees {
		if g.Status == "" && (only == "" || strings.Contains(","+only+",", ","+g.ID+",")) {
			chosen = append(chosen, g)
		}
	}
	return chosen
}

// mutateAll breaks each guarantee in turn. A mutation that no named test catches is a failure, as is one that does not compile.
func mutateAll(ctx context.Context, guarantees []guarantee, workers int) error {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	work := make(chan guarantee)
	var mu sync.Mutex
	var problems []error
	var wait sync.WaitGroup
	for range workers {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for g := range work {
				started := time.Now()
				err := mutate(ctx, dir, g)
				mu.Lock()
				if err != nil {
					problems = append(problems, fmt.Errorf("%s: %w", g.ID, err))
					fmt.Printf("%-4s NOT CAUGHT  %5.1fs  %v\n", g.ID, time.Since(started).Seconds(), err)
				} else {
					fmt.Printf("%-4s caught      %5.1fs\n", g.ID, time.Since(started).Seconds())
				}
				mu.Unlock()
			}
		}()
	}
	for _, g := range guarantees {
		work <- g
	}
	close(work)
	wait.Wait()
	fmt.Printf("%d mutations, %d not caught\n", len(guarantees), len(problems))
	return errors.Join(problems...)
}
