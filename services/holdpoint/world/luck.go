package world

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Luck is what goes wrong on the wires between the services and their servers. The zero value is good luck: nothing
// does.
type Luck struct {
	// Chances, from 0 to 1, of every message between a service and the broker: events on their way in and out,
	// acknowledgements of deliveries, and the broker's receipts for publishes.
	Duplicate, Drop, Delay, Reorder float64
	// CutBroker ends a service's connection to the broker after about so many messages; 0 never does.
	CutBroker int
	// CutDatabase ends a database connection after about so many answers and in place of the next, which may be that to
	// a COMMIT; 0 never does.
	CutDatabase int
	// Cuts bounds how often connections are cut, of each kind. Default: 15, after which luck turns.
	Cuts int
}

// Longest waits of what is delayed or overtaken.
const (
	longestDelay   = 150 * time.Millisecond
	longestReorder = 100 * time.Millisecond
)

// Fate is what became of one message.
type Fate string

// Fates that luck decides.
const (
	Passed      Fate = "passed"
	Dropped     Fate = "dropped"
	Duplicated  Fate = "duplicated"
	Delayed     Fate = "delayed"
	Reordered   Fate = "reordered"
	BrokerCut   Fate = "broker connection cut"
	DatabaseCut Fate = "database connection cut"
)

// dice throw a world's luck, from one seed.
type dice struct {
	Luck
	mu    sync.Mutex
	rng   *rand.Rand
	count map[Fate]int
}

func newDice(luck Luck, seed uint64) *dice {
	if luck.Cuts == 0 {
		luck.Cuts = 15
	}
	return &dice{Luck: luck, rng: rand.New(rand.NewPCG(seed, seed)), count: map[Fate]int{}}
}

// throw decides about one message.
func (d *dice) throw() Fate {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.rng.Float64()
	for _, chance := range []struct {
		of float64
		is Fate
	}{{d.Drop, Dropped}, {d.Duplicate, Duplicated}, {d.Delay, Delayed}, {d.Reorder, Reordered}} {
		if p < chance.of {
			d.count[chance.is]++
			return chance.is
		}
		p -= chance.of
	}
	d.count[Passed]++
	return Passed
}

// wait is a random time.
func (d *dice) wait(longest time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.rng.Int64N(int64(longest)))
}

// budget is how many messages or answers a new connection lives for; negative is for ever.
func (d *dice) budget(about int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if about == 0 {
		return -1
	}
	return 1 + d.rng.IntN(2*about)
}

// cut reports whether a connection whose budget is used up is really cut.
func (d *dice) cut(what Fate) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count[what] >= d.Cuts {
		return false
	}
	d.count[what]++
	return true
}

// Happened is how often luck has decided so.
func (w *World) Happened(what Fate) int {
	w.dice.mu.Lock()
	defer w.dice.mu.Unlock()
	return w.dice.count[what]
}
