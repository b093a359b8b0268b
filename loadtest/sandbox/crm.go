package sandbox

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// contactRequest is the body of POST /crm/contacts and PATCH /crm/contacts/{id}. ExternalID counts on POST alone.
type contactRequest struct {
	ExternalID string          `json:"external_id"`
	Fields     json.RawMessage `json:"fields"` // an object; its members are merged into the contact's
	Reference  string          `json:"reference"`
}

func createContact(x *exchange) {
	var in contactRequest
	w, ok := x.contactWrite(&in)
	if !ok {
		return
	}
	w.ExternalID = in.ExternalID
	x.write("", w, func(l *ledger, w *Write) *problem {
		if holder, taken := l.externals[in.ExternalID]; taken {
			return &problem{http.StatusConflict, "already_exists", "contact " + holder.ObjectID + " has this external_id"}
		}
		w.ObjectID, w.UpdateID, w.Version = numbered("contact_", w.Seq), numbered("upd_", w.Seq), "1"
		return nil
	})
}

func updateContact(x *exchange) {
	var in contactRequest
	w, ok := x.contactWrite(&in)
	if !ok {
		return
	}
	id := x.r.PathValue("id")
	condition := x.r.Header.Get("If-Match")
	if condition == "" && !x.personality().LaxVersions {
		x.refuse(&problem{http.StatusPreconditionRequired, "version_required", "send If-Match with the version you read"})
		return
	}
	x.write(id, w, func(l *ledger, w *Write) *problem {
		current := l.versionOf(id)
		if !matches(condition, current) {
			return &problem{http.StatusPreconditionFailed, "version_conflict",
				"the contact is at version " + strconv.Itoa(current)}
		}
		w.ObjectID, w.UpdateID, w.Version = id, numbered("upd_", w.Seq), strconv.Itoa(current+1)
		return nil
	})
}

// contactWrite reads the body into in and starts the write.
func (x *exchange) contactWrite(in *contactRequest) (*Write, bool) {
	if !x.decode(in) {
		return nil, false
	}
	x.refer(in.Reference)
	if in.Fields != nil && !bytes.HasPrefix(in.Fields, []byte("{")) {
		x.refuse(invalid("invalid_fields", "fields must be an object"))
		return nil, false
	}
	return &Write{Fields: in.Fields}, true
}

// matches evaluates If-Match against one version: absent and * always hold, quotes and W/ are optional (RFC 9110,
// 13.1.1 wants quotes; real CRMs are lax).
func matches(condition string, current int) bool {
	if condition == "" || condition == "*" {
		return true
	}
	for tag := range strings.SplitSeq(condition, ",") {
		tag = strings.Trim(strings.TrimPrefix(strings.TrimSpace(tag), "W/"), `"`)
		if tag == strconv.Itoa(current) {
			return true
		}
	}
	return false
}

func readContact(x *exchange) {
	if !x.begin() {
		return
	}
	x.pause()
	view, err := x.server.ledger.show(x.r.PathValue("id"))
	if err != nil {
		x.refuse(unavailable(err))
		return
	}
	x.w.Header().Set("ETag", `"`+view.Version+`"`)
	x.finish(http.StatusOK, view)
}

// findContacts searches by external id, the unique field of a CRM record.
func findContacts(x *exchange) {
	external := x.r.URL.Query().Get("external_id")
	if external == "" {
		x.refuse(badRequest("a search needs ?external_id="))
		return
	}
	x.answerSearch(showChange, func() ([]*Write, error) {
		holder := x.server.ledger.externalID(external)
		if holder == nil {
			return nil, nil
		}
		return []*Write{holder}, holder.durable()
	})
}

func showChange(w *Write, copied bool) any {
	view := w.changeView()
	if copied {
		view.ID += duplicateSuffix
	}
	return view
}

func findUpdates(x *exchange) {
	x.search(func(w *Write, copied bool) any {
		view := w.updateView()
		if copied {
			view.ID += duplicateSuffix
		}
		return view
	})
}
