package sandbox

import "time"

// keyID scopes an idempotency key: one system's keys say nothing about another's.
type keyID struct{ system, key string }

// keyHeaders are where systems take a key from; those that are not here know none.
var keyHeaders = map[string]string{Payments: "Idempotency-Key", CRM: "Idempotency-Key", Receiver: "Webhook-Id"}

// keyEntry is one remembered key. write is nil while the first request is still in progress.
type keyEntry struct {
	first time.Time
	asked asked
	write *Write
}

// asked is what a repeat must equal to be the same request.
type asked struct{ operation, target, bodySHA256 string }

// claim takes the key for a request. It returns the write that the key already stands for, or a problem, or neither:
// then the caller owns the key and must call settle or release.
func (l *ledger) claim(id keyID, want asked, now time.Time, window time.Duration) (*Write, *problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := l.keys[id]
	switch {
	case entry == nil || (entry.write != nil && now.Sub(entry.first) >= window):
		l.keys[id] = &keyEntry{first: now, asked: want}
		return nil, nil
	case entry.asked != want:
		return nil, &problem{422, "idempotency_key_reused", "the key was used with other parameters"}
	case entry.write == nil:
		return nil, &problem{409, "idempotency_key_in_progress", "a request with this key is still in progress"}
	default:
		return entry.write, nil
	}
}

// release forgets a key whose request wrote nothing.
func (l *ledger) release(id keyID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.keys, id)
}

// settle ties the key to its durable write.
func (l *ledger) settle(id keyID, w *Write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if entry := l.keys[id]; entry != nil {
		entry.write = w
	}
}

// remember restores the key of a write that a former process accepted. The latest write under a key stands: it was
// accepted only because the earlier one's window had ended, or because keys were being ignored.
func (l *ledger) remember(w *Write) {
	if w.IdempotencyKey == "" {
		return
	}
	target := ""
	if w.Operation == Update {
		target = w.ObjectID
	}
	l.keys[keyID{w.System, w.IdempotencyKey}] = &keyEntry{
		first: w.Time, asked: asked{w.Operation, target, w.BodySHA256}, write: w,
	}
}
