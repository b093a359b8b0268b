package sandbox

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
)

// records are the HubSpot-like CRM's. The ledger's lock guards them.
type records struct {
	byID   map[string]*record
	unique map[uniqueID]*record
}

type uniqueID struct{ property, value string }

// record is one of them, with the writes that made it what it is.
type record struct {
	id         string
	properties map[string]string
	writes     []*Write
}

func newRecords() records { return records{map[string]*record{}, map[uniqueID]*record{}} }

// find is the record with this id, or with this value of a unique property; nil where there is none.
func (r records) find(property, id string) *record {
	if property != "" && property != "hs_object_id" {
		return r.unique[uniqueID{property, id}]
	}
	return r.byID[id]
}

// draft fills a write to a record, nil for a new one, or refuses it because another record has a value that must be unique.
func (r records) draft(w *Write, held *record, properties map[string]string) *problem {
	for _, name := range uniqueProperties {
		holder := r.unique[uniqueID{name, properties[name]}]
		if properties[name] != "" && holder != nil && holder != held {
			return &problem{http.StatusConflict, "CONFLICT", "Contact already exists. Existing ID: " + holder.id}
		}
	}
	fields, err := json.Marshal(properties)
	if err != nil {
		return unavailable(err)
	}
	w.Fields = fields
	view := hubspotRecord{ID: w.ObjectID, New: held == nil, CreatedAt: w.Time, UpdatedAt: w.Time, TraceID: w.Reference,
		Properties: properties}
	if held != nil {
		view.CreatedAt = held.writes[0].Time
		view.Properties = maps.Clone(held.properties)
		maps.Copy(view.Properties, properties)
		if maps.Equal(view.Properties, held.properties) {
			w.stands = held.writes[len(held.writes)-1]
			view.UpdatedAt = w.stands.Time
		}
	}
	w.answer = func() (int, any) {
		return http.StatusOK, map[string]any{"status": "COMPLETE", "results": []any{view}, "startedAt": w.Time, "completedAt": w.Time}
	}
	return nil
}

// changed merges a write into its record.
func (r records) changed(w *Write) {
	held := r.byID[w.ObjectID]
	if held == nil {
		held = &record{id: w.ObjectID, properties: map[string]string{}}
		r.byID[w.ObjectID] = held
	}
	held.writes = append(held.writes, w)
	var properties map[string]string
	if json.Unmarshal(w.Fields, &properties) != nil {
		return // it was marshalled by draft
	}
	for _, name := range uniqueProperties {
		if value, set := properties[name]; set {
			delete(r.unique, uniqueID{name, held.properties[name]})
			if value != "" {
				r.unique[uniqueID{name, value}] = held
			}
		}
	}
	maps.Copy(held.properties, properties)
}

// record shows a durable record, nil where there is none.
func (l *ledger) record(property, id string) (*hubspotRecord, error) {
	l.mu.Lock()
	held := l.records.find(property, id)
	if held == nil {
		l.mu.Unlock()
		return nil, nil
	}
	last := held.writes[len(held.writes)-1]
	view := &hubspotRecord{ID: held.id, Properties: maps.Clone(held.properties), CreatedAt: held.writes[0].Time, UpdatedAt: last.Time}
	l.mu.Unlock()
	return view, last.durable()
}

// hubspotSearch is the body of a search. The sandbox takes one filter: that a property equals a value.
type hubspotSearch struct {
	FilterGroups []struct {
		Filters []struct {
			PropertyName string `json:"propertyName"`
			Operator     string `json:"operator"`
			Value        string `json:"value"`
		} `json:"filters"`
	} `json:"filterGroups"`
}

// searchRecords asks the index, which lags behind what readRecord shows: a record is in it from IndexLag after its last change.
func searchRecords(x *exchange) {
	var in hubspotSearch
	if !x.decode(&in) {
		return
	}
	if len(in.FilterGroups) != 1 || len(in.FilterGroups[0].Filters) != 1 || in.FilterGroups[0].Filters[0].Operator != "EQ" {
		x.refuse(hubspotInvalid("the sandbox takes one filter, with the operator EQ"))
		return
	}
	filter := in.FilterGroups[0].Filters[0]
	view := func(w *Write, copied bool) any {
		record, err := x.server.ledger.record("", w.ObjectID)
		if err != nil || record == nil {
			return nil // it was found durable just now
		}
		if copied {
			record.ID += duplicateSuffix
		}
		return record
	}
	results, ok := x.matches(view, func() ([]*Write, error) {
		return x.server.ledger.recordsWith(filter.PropertyName, filter.Value)
	})
	if ok {
		x.finish(http.StatusOK, map[string]any{"total": len(results), "results": results})
	}
}

// recordsWith are the last writes of the records that have a value, all of them durable.
func (l *ledger) recordsWith(property, value string) ([]*Write, error) {
	var found []*Write
	err := l.read(func() {
		for _, held := range l.records.byID {
			if text, set := held.properties[property]; set && text == value {
				found = append(found, held.writes[len(held.writes)-1])
			}
		}
	})
	slices.SortFunc(found, func(a, b *Write) int { return int(a.Seq) - int(b.Seq) })
	return found, err
}
