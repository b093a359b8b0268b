package connector

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// Executor is a connector whose writes are made by programs of the tenant's, which take commands, ask leave and report
// (B6). It prepares commands and knows what receipts mean; whoever owns it carries both over the bus. It reads nothing: an
// executor can be asked neither for a target's version nor for what it has written.
type Executor struct {
	declared   *config.Connector
	operations map[string]*config.Operation
}

// NewExecutor checks the declaration. The error joins everything that is wrong.
func NewExecutor(declared *config.Connector) (*Executor, error) {
	if declared == nil {
		return nil, errors.New("executor: no declaration given")
	}
	e := &Executor{declared: declared, operations: make(map[string]*config.Operation, len(declared.Operations))}
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(declared.Executor(), "its kind is %q and not executor", declared.Kind)
	check(declared.BaseURL == "", "an executor is not called, so it has no base URL")
	check(declared.Timeout >= 0 && declared.LeaveWithin >= 0 && declared.Concurrency >= 0,
		"timeout, leave_within and concurrency must not be negative")
	for _, op := range declared.Operations {
		check(e.operations[op.Name] == nil, "operation %q is declared twice", op.Name)
		check(op.Lookup == nil && op.Read == nil && op.Conditional == nil,
			"operation %q: an executor cannot be read from, and its versions are in the action", op.Name)
		e.operations[op.Name] = op
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("connector %q: %w", declared.ID, err)
	}
	return e, nil
}

// Declared is the declaration of an operation, as of a Connector.
func (e *Executor) Declared(operation string) (*config.Operation, bool) {
	op, found := e.operations[operation]
	return op, found
}

// commandMethod stands in a Request in the place of an HTTP method, so that no HTTP request can have a command's digest.
const commandMethod = "COMMAND"

// Prepare is the content of a command: operation, operation id, and the approved action in its canonical bytes. The digest
// covers all of it and nothing that differs from attempt to attempt, so that a repeated command can never ask for anything
// else (DSP-04).
func (e *Executor) Prepare(_ context.Context, op Operation) (*Request, error) {
	if _, found := e.operations[op.Name]; !found {
		return nil, fmt.Errorf("connector %q declares no operation %q", e.declared.ID, op.Name)
	}
	if op.Action.Kind() != canonical.Object {
		return nil, fmt.Errorf("prepare %s of connector %q: the intent has no action", op.Name, e.declared.ID)
	}
	r := &Request{Operation: op.Name, Method: commandMethod, URL: op.OperationID, Body: op.Action.AppendCanonical(nil)}
	r.Digest = r.Sum()
	return r, nil
}

// ReadTarget always errs with ErrNotDeclared.
func (e *Executor) ReadTarget(_ context.Context, op Operation) (version string, found bool, err error) {
	return "", false, fmt.Errorf("read the target of %s from executor %q: %w", op.Name, e.declared.ID, ErrNotDeclared)
}

// Reconcile is always unclear.
func (e *Executor) Reconcile(context.Context, Operation) LookupResult {
	return unclear("lookup: %v", ErrNotDeclared)
}
