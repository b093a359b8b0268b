package ledger

import (
	"encoding/json"
	"fmt"
	"time"
)

// Readings are what the targets of a request hold, in the order of its actions: nil where nobody has tried to read one, and shorter
// than the actions where nobody has tried the rest.
//
// Their JSON is what a vote keeps of them (A17): the reading of the first action with those of the further ones inside. A vote on one
// action looks as it did when only the first was read, so that each release understands what the other one wrote.
type Readings []*Reading

// Of is the reading of an action by its ordinal.
func (all Readings) Of(ordinal int) *Reading {
	if ordinal > len(all) {
		return nil
	}
	return all[ordinal-1]
}

// set puts in the reading of an action.
func (all *Readings) set(ordinal int, r *Reading) {
	for len(*all) < ordinal {
		*all = append(*all, nil)
	}
	(*all)[ordinal-1] = r
}

// Answered reports whether any target was read at all.
func (all Readings) Answered() bool {
	for _, r := range all {
		if r.Answered() {
			return true
		}
	}
	return false
}

// keptReadings is the JSON of Readings.
type keptReadings struct {
	Reading
	Further []furtherReading `json:"further,omitempty"`
}

type furtherReading struct {
	Ordinal int `json:"ordinal"`
	Reading
}

// MarshalJSON leaves out what gave no answer.
func (all Readings) MarshalJSON() ([]byte, error) {
	var kept keptReadings
	for i, r := range all {
		switch {
		case !r.Answered():
		case i == 0:
			kept.Reading = *r
		default:
			kept.Further = append(kept.Further, furtherReading{i + 1, *r})
		}
	}
	return json.Marshal(kept)
}

// UnmarshalJSON reads what any release kept.
func (all *Readings) UnmarshalJSON(text []byte) error {
	var kept *keptReadings
	if err := json.Unmarshal(text, &kept); err != nil || kept == nil {
		return err
	}
	*all = nil
	if kept.Reading.Answered() {
		all.set(1, &kept.Reading)
	}
	for _, f := range kept.Further {
		if f.Ordinal < 2 {
			return fmt.Errorf("a reading of action %d is no further one", f.Ordinal)
		}
		all.set(f.Ordinal, &f.Reading)
	}
	return nil
}

// readingsView are the readings of approval a as one JSON value. Where an action of several has a row of its own, that counts; the
// other table may have one of its first action besides, by a release that reads no other.
const readingsView = `(select coalesce(jsonb_agg(jsonb_build_object('ordinal', g.ordinal, 'read_at', g.read_at, 'found', g.found,
      'version', g.version, 'held', g.held, 'error', g.error, 'failed_at', g.failed_at) order by g.ordinal), '[]') from (
    select 1 as ordinal, g.read_at, g.found, g.version, g.held, g.error, g.failed_at from readings g
    where g.run_id = a.run_id and g.tenant_id = a.tenant_id and g.intent_hash = a.intent_hash and not exists (select from action_readings o
      where o.run_id = a.run_id and o.tenant_id = a.tenant_id and o.approval_id = a.approval_id and o.ordinal = 1)
    union all
    select g.ordinal, g.read_at, g.found, g.version, g.held, g.error, g.failed_at from action_readings g
    where g.run_id = a.run_id and g.tenant_id = a.tenant_id and g.approval_id = a.approval_id) g)`

// readRow is one reading of readingsView.
type readRow struct {
	Ordinal  int        `json:"ordinal"`
	ReadAt   *time.Time `json:"read_at"`
	Found    bool       `json:"found"`
	Version  string     `json:"version"`
	Held     *string    `json:"held"` // as it was stored: exact decimals do not survive as JSON inside of JSON
	Error    string     `json:"error"`
	FailedAt *time.Time `json:"failed_at"`
}

func readingsOf(rows []readRow) (all Readings) {
	for _, row := range rows {
		r := &Reading{ReadAt: orZero(row.ReadAt), Found: row.Found, Version: row.Version, Error: row.Error, FailedAt: orZero(row.FailedAt)}
		if row.Held != nil {
			r.Held = json.RawMessage(*row.Held)
		}
		if r.Answered() || r.Error != "" {
			all.set(row.Ordinal, r)
		}
	}
	return all
}
