// Command mutate keeps contracts/guarantees.yaml honest: every guarantee is there, names tests that exist, and those tests fail
// when one line that keeps the promise is broken.
//
//	go run ./.ci/mutate check   the map is complete and names what exists
//	go run ./.ci/mutate run     break each line in turn (go test -overlay) and see the tests fail; -only K3,D9 takes some of
//	                            them, -sample 24 as many as drawn by -seed
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
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
	sample := flags.Int("sample", 0, "how many of them, drawn from -seed; 0 is all")
	seed := flags.Uint64("seed", 0, "what -sample draws from; 0 takes a new one, which is printed")
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
	return mutateAll(ctx, drawn(wanted(guarantees, *only), *sample, *seed), *workers)
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

// drawn is a sample of the guarantees, in their order.
func drawn(all []guarantee, sample int, seed uint64) []guarantee {
	if sample <= 0 || sample >= len(all) {
		return all
	}
	if seed == 0 {
		seed = rand.Uint64N(1_000_000) + 1
	}
	fmt.Printf("%d of %d mutations, seed %d\n", sample, len(all), seed)
	places := rand.New(rand.NewPCG(seed, 0)).Perm(len(all))[:sample]
	slices.Sort(places)
	chosen := make([]guarantee, sample)
	for i, place := range places {
		chosen[i] = all[place]
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
