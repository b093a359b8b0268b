package matrix

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/loadtest/crash"
	"github.com/holdpoint/holdpoint/pkg/fault"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// death is where the dispatcher dies.
type death struct {
	site string // "": it does not
	side string
}

func (d death) String() string {
	if d.site == "" {
		return "none"
	}
	_, name, _ := strings.Cut(d.site, "/")
	return name + "@" + d.side
}

// deaths are all: at each boundary on the way of an effect through the dispatcher, on both sides, and while the provider
// has the write and has not answered.
var deaths = func() []death {
	all := []death{{}, {ledger.Dispatcher + "/send", crash.Accepted}}
	for _, boundary := range []string{"lease", "send", "answer", "record_outcomes"} {
		for _, side := range []fault.Side{fault.Before, fault.After} {
			all = append(all, death{ledger.Dispatcher + "/" + boundary, string(side)})
		}
	}
	return all
}()

// cell is one combination, with an event and a target of its own.
type cell struct {
	profile profile
	fault   misbehaviour
	death   death

	key, target, operationID string
	run                      uuid.UUID
	counter                  string   // id of the rule that counts its writes
	faults                   []string // ids of the rules by which the provider misbehaves
	struck                   bool     // the dispatcher died where it should
	failure                  string   // of the harness
}

func (c *cell) String() string { return c.profile.name + "/" + c.fault.name + "/" + c.death.String() }

// all are the cells that there are.
func all() []*cell {
	var cells []*cell
	for _, p := range profiles {
		for _, f := range misbehaviours {
			if f.fits != nil && !f.fits(p) {
				continue
			}
			for _, d := range deaths {
				cells = append(cells, &cell{profile: p, fault: f, death: d})
			}
		}
	}
	return cells
}

// name gives the cells their events.
func name(cells []*cell, prefix string) {
	for n, c := range cells {
		c.key = fmt.Sprintf("%s-%04d", prefix, n+1)
		c.target, c.run = "c-"+c.key, crash.RunID(c.key)
		c.operationID = ledger.OperationID(c.run, 1, 1)
	}
}

// sample draws cells from a seed that together have every profile, every fault and every death, half of them at least
// without a death where the size allows.
func sample(cells []*cell, seed uint64, size int) []*cell {
	random := rand.New(rand.NewPCG(seed, 0))
	shuffled := slices.Clone(cells)
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	covered := map[string]bool{}
	var chosen, quiet, deadly []*cell
	for _, c := range shuffled {
		news := false
		for _, part := range []string{"profile " + c.profile.name, "fault " + c.fault.name, "death " + c.death.String()} {
			news = news || !covered[part]
			covered[part] = true
		}
		switch {
		case news:
			chosen = append(chosen, c)
		case c.death.site == "":
			quiet = append(quiet, c)
		default:
			deadly = append(deadly, c)
		}
	}
	dying := 0
	for _, c := range chosen {
		if c.death.site != "" {
			dying++
		}
	}
	left := max(0, size-len(chosen))
	more := min(left, len(deadly), max(0, size/2-dying))
	chosen = append(chosen, deadly[:more]...)
	return append(chosen, quiet[:min(len(quiet), left-more)]...)
}

// matching are the cells that a pattern PROFILE/FAULT/DEATH names; a part that is left out or * is any.
func matching(cells []*cell, pattern string) []*cell {
	parts := strings.Split(pattern, "/")
	return slices.DeleteFunc(slices.Clone(cells), func(c *cell) bool {
		is := []string{c.profile.name, c.fault.name, c.death.String()}
		if len(parts) > len(is) {
			return true
		}
		for i, want := range parts {
			if want != "" && want != "*" && want != is[i] {
				return true
			}
		}
		return false
	})
}
