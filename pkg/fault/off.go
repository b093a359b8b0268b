//go:build !holdpoint_crash

package fault

import "context"

// Enabled reports whether this build can crash on demand. It is a constant, so that code which only gathers keys for
// a mark can be left out of normal builds: if fault.Enabled { keys = … }.
const Enabled = false

// Before marks that the boundary is about to be crossed by a batch that touches the runs of keys.
func (s *Site) Before(context.Context, ...string) {}

// After marks that the boundary has been crossed by a batch that touches the runs of keys.
func (s *Site) After(context.Context, ...string) {}

// AfterFlush is After for a boundary whose other side may still lie in a buffer of this process, such as an ack: a
// crash there first calls flush.
func (s *Site) AfterFlush(context.Context, func(context.Context) error, ...string) {}
