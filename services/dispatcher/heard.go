package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// heardPause is how often the bus is asked how far the database has come.
const heardPause = time.Second

// heard is the highest mark of the database that the bus has heard of. Nothing is leased before it was asked once, and nothing out of a
// database that does not have the mark: it was put back to a backup, and does not know of all that was sent (D17).
type heard struct {
	mark  atomic.Int64
	asked atomic.Bool
}

func (h *heard) hear(mark int64) {
	for {
		known := h.mark.Load()
		if mark <= known || h.mark.CompareAndSwap(known, mark) {
			break
		}
	}
	h.asked.Store(true)
}

// hearMark asks the bus. One that has lost its marks says nothing against what was heard before.
func (d *Dispatcher) hearMark(ctx context.Context) (bool, error) {
	text, err := d.env.Bus.LastMark(ctx)
	if err != nil {
		if !d.heard.asked.Load() {
			return false, fmt.Errorf("nothing is sent until it is known that the database was not put back to a backup: %w", err)
		}
		return false, nil // the mark that was heard stands
	}
	var mark ledger.Mark
	if text != nil {
		if err := json.Unmarshal(text, &mark); err != nil {
			return false, fmt.Errorf("the last mark on the bus cannot be read: %w", err)
		}
	}
	first := !d.heard.asked.Load()
	d.heard.hear(mark.Seq)
	if first {
		service.WakeUp(d.wake)
	}
	return false, nil
}
