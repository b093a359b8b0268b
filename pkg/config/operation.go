package config

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

var (
	kinds   = []string{OperationCreate, OperationUpdate, OperationDelete, OperationSend, OperationReassign}
	methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
)

// readOperations reads the list; read does so with what an operation of the connector's kind has.
func readOperations(o *object, read func(part *object) *Operation) []*Operation {
	var list []*Operation
	seen := map[string]Position{}
	for _, part := range o.objects("operations") {
		op := read(part)
		op.Name, op.Kind = part.id("name", word), part.oneOf("kind", kinds...)
		op.KeyWindow, op.KeyMargin = part.optDuration("key_window"), part.optDuration("key_margin")
		op.Replays, op.InOrder = part.optFlag("replays"), part.optFlag("in_order")
		checkKeyProfile(part, op)
		unique(seen, part, "name", op.Name)
		part.close()
		list = append(list, op)
	}
	if len(list) == 0 && len(o.items("operations")) == 0 {
		o.fail("operations", "is missing; it must list at least one operation")
	}
	return list
}

// readOperation reads how a call is made, and what its answers mean.
func readOperation(part *object) *Operation {
	part.refuse("is for kind smtp; this connector's kind is http", ofSendAlone...)
	op := &Operation{
		Method:            part.oneOf("method", methods...),
		Path:              part.path("path"),
		Body:              part.tree("body"),
		IdempotencyHeader: part.optID("idempotency_header", header),
		Conditional:       readConditional(part),
		Success:           readSuccess(part),
		Refused:           part.statuses("refused", 400, 499),
		BusyStatuses:      part.statuses("busy_statuses", 400, 599),
		InProgressCode:    part.optText("in_progress_code"),
		KeyReusedCode:     part.optText("key_reused_code"),
		ErrorCode:         part.pointer("error_code"),
		RefusedCodes:      part.texts("refused_codes", nil),
		BusyCodes:         part.texts("busy_codes", nil),
		UnauthorizedCodes: part.texts("unauthorized_codes", nil),
		ReceiptVersion:    part.pointer("receipt_version"),
		RequestIDHeader:   part.optID("request_id_header", header),
		Lookup:            readLookup(part),
		Read:              readRead(part),
	}
	for _, name := range []string{"refused_codes", "busy_codes", "unauthorized_codes"} {
		if len(part.items(name)) > 0 && op.ErrorCode == "" {
			part.fail(name, "needs error_code, where they are looked for")
		}
	}
	if op.Conditional != nil && op.Conditional.Header == "" && !mentions(op.Body, "${current_version") {
		part.fail("conditional", "is in the body, which must have ${current_version} in it")
	}
	return op
}

// mentions reports whether some text of a tree holds the words.
func mentions(tree any, words string) bool {
	switch t := tree.(type) {
	case string:
		return strings.Contains(t, words)
	case []any:
		return slices.ContainsFunc(t, func(item any) bool { return mentions(item, words) })
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(t)), func(item any) bool { return mentions(item, words) })
	}
	return false
}

// checkKeyProfile holds what is said about keys together: a same-key retry relies on all of it (D13).
func checkKeyProfile(o *object, op *Operation) {
	if op.Replays && op.KeyWindow == 0 && op.IdempotencyHeader == OperationIDMember {
		o.fail("replays", "needs key_window: how long the executor remembers an operation id")
	} else if op.Replays && (op.IdempotencyHeader == "" || op.KeyWindow == 0) {
		o.fail("replays", "needs idempotency_header and key_window: how the key is sent, and how long it is remembered")
	}
	if op.KeyMargin > 0 && op.KeyMargin >= op.KeyWindow {
		o.fail("key_margin", "is %s, which must be shorter than key_window, %s", op.KeyMargin, op.KeyWindow)
	}
	if (op.InProgressCode != "" || op.KeyReusedCode != "") && op.ErrorCode == "" {
		o.fail("error_code", "is missing; in_progress_code and key_reused_code are looked for there")
	}
}

func readConditional(o *object) *Conditional {
	part := o.object("conditional")
	if part == nil {
		return nil
	}
	if part.take("body") != nil {
		if !part.optFlag("body") {
			part.fail("body", "must be true; leave it out where the version is in a header")
		}
		part.refuse("is for a version in a header; this one is in the body", "header", "value")
		part.close()
		return &Conditional{}
	}
	if part.take("header") == nil && part.take("value") == nil {
		part.problems.add(part.pos, "conditional must have header and value, or body: true")
	}
	c := &Conditional{Header: part.optID("header", header), Value: part.optText("value")}
	if (c.Header == "") != (c.Value == "") {
		part.problems.add(part.pos, "conditional must have header and value together")
	}
	part.checkTemplate(part.at("value"), "value", c.Value)
	part.close()
	return c
}

func readSuccess(o *object) Success {
	part := o.object("success")
	if part == nil {
		return Success{}
	}
	s := Success{
		Statuses:   part.statuses("statuses", 200, 299),
		Pending:    part.statuses("pending", 200, 299),
		ExternalID: part.pointer("external_id"),
		Where:      readCondition(part, "where"), PendingWhere: readCondition(part, "pending_where"),
	}
	if s.PendingWhere != nil && s.Where == nil {
		part.fail("pending_where", "needs where, or nothing tells the two apart")
	}
	part.close()
	return s
}

func readCondition(o *object, name string) *Condition {
	part := o.object(name)
	if part == nil {
		return nil
	}
	c := &Condition{Pointer: part.pointer("pointer")}
	if part.take("pointer") == nil {
		part.fail("pointer", "is missing; it is the JSON pointer to what tells")
	}
	c.Equals = part.scalar("equals")
	part.close()
	return c
}

func readLookup(o *object) *Lookup {
	part := o.object("lookup")
	if part == nil {
		return nil
	}
	l := &Lookup{
		Path:       part.path("path"),
		Items:      part.pointer("items"),
		ExternalID: part.pointer("external_id"),
		Match:      part.pointer("match"),
		Version:    part.pointer("version"),
		IndexLag:   part.optDuration("index_lag"),
		Conclusive: part.optFlag("conclusive"),
	}
	if part.take("external_id") == nil {
		part.fail("external_id", "is missing; it is the JSON pointer to the provider's id in a match")
	}
	part.close()
	return l
}

func readRead(o *object) *Read {
	part := o.object("read")
	if part == nil {
		return nil
	}
	r := &Read{Path: part.path("path"), Version: part.pointer("version"), Values: part.wholePointer("values"),
		Fields: part.pointerMap("fields"), Unverified: part.oneOf("postcondition", "check", postconditionSkip, "") == postconditionSkip}
	if part.take("version") == nil {
		part.fail("version", "is missing; it is the JSON pointer to the record's version")
	}
	part.close()
	return r
}

// IdempotentCreate reports whether a call may safely be repeated under the same key for a time.
func (op *Operation) IdempotentCreate() bool {
	return op.IdempotencyHeader != "" && op.Replays && op.KeyWindow > 0
}

// Read fetches the target's current version before a write (D4), and for reviewers what it holds (A10).
type Read struct {
	Path    string // template; GET
	Version string // JSON pointer
	// Values is the JSON pointer to the object in the answer whose members are those of proposed_change, "" for the whole
	// answer; nil where it has no such object.
	Values *string
	// Fields are JSON pointers into proposed_change with where the answer has the same; they come before Values.
	Fields map[string]string
	// Unverified takes the provider's word for what was done: the target is not read after an update.
	Unverified bool
}

// postconditionSkip is how a configuration says Read.Unverified.
const postconditionSkip = "skip"

// Verifies reports whether the target is read after a write that the provider says was done, and held against what was written (R7):
// after updates whose read says where the target has the values.
func (op *Operation) Verifies() bool {
	return op.Kind == OperationUpdate && op.Read.Compares() && !op.Read.Unverified
}

// Compares reports whether what is read can be compared with what is proposed.
func (r *Read) Compares() bool { return r != nil && (r.Values != nil || len(r.Fields) > 0) }

// Held is where the answer to a read has what a pointer into proposed_change leads to; false where nothing is declared. Of the
// declared fields that the pointer leads through, the longest counts.
func (r *Read) Held(pointer string) (string, bool) {
	longest, at := "", ""
	for from, to := range r.Fields {
		if (pointer == from || strings.HasPrefix(pointer, from+"/")) && len(from) > len(longest) {
			longest, at = from, to+pointer[len(from):]
		}
	}
	switch {
	case longest != "":
		return at, true
	case r.Values == nil:
		return "", false
	}
	return *r.Values + pointer, true
}
