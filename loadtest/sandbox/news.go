package sandbox

import (
	"context"
	"sync"
)

// news wakes those who wait for something to have happened, such as a write being accepted or a fault having fired. It
// costs one uncontended lock when nobody waits.
type news struct {
	mu      sync.Mutex
	waiting bool
	changed chan struct{}
}

func newNews() *news { return &news{changed: make(chan struct{})} }

// tell wakes all who wait.
func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting {
		close(n.changed)
		n.changed, n.waiting = make(chan struct{}), false
	}
}

// await calls done now and after each piece of news, until it returns true or the context ends.
func (n *news) await(ctx context.Context, done func() bool) {
	for {
		n.mu.Lock()
		changed := n.changed
		n.waiting = true
		n.mu.Unlock()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
