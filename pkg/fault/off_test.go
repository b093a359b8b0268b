//go:build !holdpoint_crash

package fault_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/fault"
)

func TestNormalBuildDoesNothing(t *testing.T) {
	t.Setenv("HOLDPOINT_CRASH", "registry/quiet@before")
	site := fault.NewSite("registry", "quiet", fault.KindCommit)
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		site.Before(ctx, "key")
		site.After(ctx, "key")
		site.AfterFlush(ctx, func(context.Context) error { panic("flushed") }, "key")
	}))
	require.False(t, fault.Enabled)
}
