package connector

import (
	"errors"
	"fmt"
	"slices"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// operation is a declared operation with its templates compiled and its defaults filled in.
type operation struct {
	declared    *config.Operation
	path        template
	body        *node
	conditional template
	lookup      template
	read        template
	succeeded   []int
	accepted    []int
	refused     []int
	busy        []int

	where, pendingWhere *condition // nil where they are not declared
}

// condition holds of a body with this value there.
type condition struct {
	pointer string
	equals  canonical.Value
}

func (c *condition) holds(body canonical.Value) bool {
	value, found := body.Pointer(c.pointer)
	return found && value.Equal(c.equals)
}

var methods = []string{"POST", "PUT", "PATCH", "DELETE"}

func compileOperation(declared *config.Operation) (*operation, error) {
	c := compiler{}
	op := &operation{
		declared:  declared,
		path:      c.path("path", declared.Path),
		succeeded: orDefault(declared.Success.Statuses, 200, 201, 204),
		accepted:  finishedLater(declared.Success),
		refused:   orDefault(declared.Refused, 400, 404, 410, 422),
		busy:      append([]int{429}, declared.BusyStatuses...),
		where:     c.condition(declared.Success.Where), pendingWhere: c.condition(declared.Success.PendingWhere),
	}
	if declared.Body != nil {
		op.body = c.node("body", declared.Body)
	}
	if declared.Conditional != nil && declared.Conditional.Header != "" {
		op.conditional = c.template("conditional value", declared.Conditional.Value)
		c.check(validHeaderName(declared.Conditional.Header), "conditional header %q is not a header name",
			declared.Conditional.Header)
	}
	if declared.Lookup != nil {
		op.lookup = c.path("lookup path", declared.Lookup.Path)
	}
	if declared.Read != nil {
		op.read = c.path("read path", declared.Read.Path)
	}
	c.check(slices.Contains(methods, declared.Method), "method %q is not one of %v", declared.Method, methods)
	c.headers(declared)
	c.pointers(declared)
	return op, errors.Join(c.errs...)
}

func orDefault(declared []int, otherwise ...int) []int {
	if len(declared) > 0 {
		return declared
	}
	return otherwise
}

// finishedLater are the statuses of what is finished later: 202, unless it is declared to be something else.
func finishedLater(s config.Success) []int {
	if len(s.Pending) == 0 && slices.Contains(s.Statuses, 202) {
		return nil
	}
	return orDefault(s.Pending, 202)
}

// compiler collects complaints.
type compiler struct{ errs []error }

func (c *compiler) check(ok bool, format string, args ...any) {
	if !ok {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

func (c *compiler) condition(declared *config.Condition) *condition {
	if declared == nil {
		return nil
	}
	equals, err := canonical.FromAny(declared.Equals)
	c.check(err == nil, "the value at %q: %v", declared.Pointer, err)
	c.check(declared.Pointer != "", "a condition needs a JSON pointer")
	return &condition{declared.Pointer, equals}
}

func (c *compiler) headers(declared *config.Operation) {
	for _, name := range []string{declared.IdempotencyHeader, declared.RequestIDHeader} {
		c.check(name == "" || validHeaderName(name), "%q is not a header name", name)
	}
}

// pointers checks every JSON pointer of the declaration.
func (c *compiler) pointers(declared *config.Operation) {
	pointers := []string{declared.ErrorCode, declared.ReceiptVersion, declared.Success.ExternalID}
	if l := declared.Lookup; l != nil {
		pointers = append(pointers, l.Items, l.ExternalID, l.Match, l.Version)
	}
	for _, where := range []*config.Condition{declared.Success.Where, declared.Success.PendingWhere} {
		if where != nil {
			pointers = append(pointers, where.Pointer)
		}
	}
	if declared.Read != nil {
		pointers = append(pointers, declared.Read.Version)
		if declared.Read.Values != nil {
			pointers = append(pointers, *declared.Read.Values)
		}
		for from, to := range declared.Read.Fields {
			pointers = append(pointers, from, to)
		}
	}
	for _, pointer := range pointers {
		if _, err := canonical.SplitPointer(pointer); err != nil {
			c.errs = append(c.errs, err)
		}
	}
	c.check(!coded(declared) || declared.ErrorCode != "", "error codes that mean something need a pointer to the error code")
}

// coded reports whether error codes are declared to mean something.
func coded(d *config.Operation) bool {
	return d.InProgressCode != "" || d.KeyReusedCode != "" || len(d.RefusedCodes)+len(d.BusyCodes)+len(d.UnauthorizedCodes) > 0
}
