package sandbox

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// hubspotBatch is the body of batch/upsert and batch/update. The sandbox takes one input a batch.
type hubspotBatch struct {
	Inputs []hubspotInput `json:"inputs"`
}

type hubspotInput struct {
	ID         string                     `json:"id"` // of the record, or a value of the property below
	IDProperty string                     `json:"idProperty"`
	TraceID    string                     `json:"objectWriteTraceId"` // the caller's reference
	Properties map[string]json.RawMessage `json:"properties"`
}

// uniqueProperties are those whose values belong to one record at most.
var uniqueProperties = []string{"email", "external_id", "holdpoint_operation_id"}

// hubspotRecord is a record as the CRM shows it.
type hubspotRecord struct {
	ID         string            `json:"id"`
	Properties map[string]string `json:"properties"`
	CreatedAt  time.Time         `json:"createdAt"`
	UpdatedAt  time.Time         `json:"updatedAt"`
	Archived   bool              `json:"archived"`
	New        bool              `json:"new,omitempty"`
	TraceID    string            `json:"objectWriteTraceId,omitempty"`
}

// upsertRecord makes a record or changes the one that has the value. One that holds already all that it is asked to is left as it is,
// so that the same upsert twice is one write.
func upsertRecord(x *exchange) {
	in, properties, ok := x.recordInput()
	if !ok {
		return
	}
	if !slices.Contains(uniqueProperties, in.IDProperty) {
		x.refuse(hubspotInvalid("idProperty must be a property with unique values"))
		return
	}
	properties[in.IDProperty] = in.ID
	x.write("", &Write{}, func(l *ledger, w *Write) *problem {
		held := l.records.unique[uniqueID{in.IDProperty, in.ID}]
		if held == nil {
			w.ObjectID = numbered("51", w.Seq)
		} else {
			w.ObjectID = held.id
		}
		return l.records.draft(w, held, properties)
	})
}

func updateRecord(x *exchange) {
	in, properties, ok := x.recordInput()
	if !ok {
		return
	}
	x.write(in.ID, &Write{}, func(l *ledger, w *Write) *problem {
		held := l.records.find(in.IDProperty, in.ID)
		if held == nil {
			return hubspotMissing
		}
		w.ObjectID = held.id
		return l.records.draft(w, held, properties)
	})
}

// hubspotMissing has the status of a batch in which something failed: one input, and so no result.
var hubspotMissing = &problem{http.StatusMultiStatus, "OBJECT_NOT_FOUND", "the record is not there"}

func hubspotInvalid(message string) *problem {
	return &problem{http.StatusBadRequest, "VALIDATION_ERROR", message}
}

// recordInput reads the one input of a batch, and its properties.
func (x *exchange) recordInput() (*hubspotInput, map[string]string, bool) {
	var batch hubspotBatch
	if !x.decode(&batch) {
		return nil, nil, false
	}
	if len(batch.Inputs) != 1 || batch.Inputs[0].ID == "" {
		x.refuse(hubspotInvalid("the sandbox takes one input a batch, with an id"))
		return nil, nil, false
	}
	in := &batch.Inputs[0]
	x.refer(in.TraceID)
	properties, refused := in.texts()
	if refused != nil {
		x.refuse(refused)
	}
	return in, properties, refused == nil
}

// texts are the properties as the CRM keeps them: all values are text.
func (in *hubspotInput) texts() (map[string]string, *problem) {
	texts := map[string]string{}
	for name, value := range in.Properties {
		text := string(value)
		switch text[0] {
		case '{', '[':
			return nil, hubspotInvalid("property " + name + " must be a single value")
		case 'n': // null empties it
			text = ""
		case '"':
			if err := json.Unmarshal(value, &text); err != nil {
				return nil, badRequest("property %s: %v", name, err)
			}
		}
		texts[name] = text
	}
	return texts, nil
}

// readRecord shows a record by its id or, with ?idProperty=, by a unique property. It asks no index, and so it never lags.
func readRecord(x *exchange) {
	if !x.begin() {
		return
	}
	x.pause()
	query := x.r.URL.Query()
	record, err := x.server.ledger.record(query.Get("idProperty"), x.r.PathValue("id"))
	switch {
	case err != nil:
		x.refuse(unavailable(err))
	case record == nil:
		x.refuse(&problem{http.StatusNotFound, "OBJECT_NOT_FOUND", "the record is not there"})
	default:
		x.finish(http.StatusOK, record.asked(strings.Split(query.Get("properties"), ",")))
	}
}

// asked leaves of the properties those that are asked for.
func (r *hubspotRecord) asked(names []string) *hubspotRecord {
	for name := range r.Properties {
		if !slices.Contains(names, name) {
			delete(r.Properties, name)
		}
	}
	return r
}

// hubspotError is an error as HubSpot writes it, within a batch's answer where the status says so.
func hubspotError(p *problem) any {
	one := map[string]any{"status": "error", "category": p.code, "message": p.message}
	if p.status != http.StatusMultiStatus {
		return one
	}
	return map[string]any{"status": "COMPLETE", "results": []any{}, "numErrors": 1, "errors": []any{one}}
}
