package sandbox

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// contact is one CRM record. A record that nobody has written exists all the same, at version 1.
type contact struct {
	version int
	changes []*Write // in order; merged when somebody reads
}

// contactView is a contact as the CRM shows it.
type contactView struct {
	ID         string                     `json:"id"`
	Version    string                     `json:"version"`
	ExternalID string                     `json:"external_id,omitempty"`
	Fields     map[string]json.RawMessage `json:"fields"`
	UpdatedAt  *time.Time                 `json:"updated_at,omitempty"`
}

// contact returns the record with this id, made on first touch. The caller holds the lock.
func (l *ledger) contact(id string) *contact {
	c := l.contacts[id]
	if c == nil {
		c = &contact{version: 1}
		l.contacts[id] = c
	}
	return c
}

// versionOf returns the current version without making the record.
func (l *ledger) versionOf(id string) int {
	if c := l.contacts[id]; c != nil {
		return c.version
	}
	return 1
}

// externalID returns the write that created the contact with this external id, or nil.
func (l *ledger) externalID(id string) *Write {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.externals[id]
}

func (c *contact) changed(w *Write) {
	// The version was decided when the write was accepted; a create stays at 1.
	if version, err := strconv.Atoi(w.Version); err == nil {
		c.version = version
	}
	c.changes = append(c.changes, w)
}

// known is what a record holds that was there before anybody wrote it; one that was created holds what it was created with.
func known(changes []*Write) map[string]json.RawMessage {
	if len(changes) > 0 && changes[0].ExternalID != "" {
		return map[string]json.RawMessage{}
	}
	return map[string]json.RawMessage{"city": json.RawMessage(`"Porto"`), "phone": json.RawMessage(`"+351 210 000 000"`)}
}

// show returns the contact with all its durable changes merged, later ones on top.
func (l *ledger) show(id string) (contactView, error) {
	l.mu.Lock()
	view := contactView{ID: id, Version: strconv.Itoa(l.versionOf(id))}
	var changes []*Write
	if c := l.contacts[id]; c != nil {
		changes = c.changes[:len(c.changes):len(c.changes)]
	}
	l.mu.Unlock()
	view.Fields = known(changes)
	for _, w := range changes {
		if err := w.durable(); err != nil {
			return view, err
		}
		if err := view.merge(w); err != nil {
			return view, err
		}
	}
	return view, nil
}

func (v *contactView) merge(w *Write) error {
	v.UpdatedAt = &w.Time
	if w.ExternalID != "" {
		v.ExternalID = w.ExternalID
	}
	if len(w.Fields) == 0 {
		return nil
	}
	if err := json.Unmarshal(w.Fields, &v.Fields); err != nil {
		return fmt.Errorf("merge fields of write %d: %w", w.Seq, err)
	}
	return nil
}
