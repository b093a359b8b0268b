package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

func TestDrainReport(t *testing.T) { // D15
	t.Parallel()
	b := ledgertest.New(t)
	waiting := b.Approved("queued", "windowed", "retried", "lost", "taken")
	sent := b.Lease(time.Hour, b.Approved("sent")...)[0]
	b.Exec(`update effects set not_before = clock_timestamp() + interval '1 hour', cancel_until = clock_timestamp() where run_id = $1`, waiting[1].RunID)
	b.Exec(`update effects set attempts = 2 where run_id = $1`, waiting[2].RunID)
	b.Exec(`update effects set state = 'unknown', maybe_sent = true, first_sent_at = clock_timestamp(), unknown_since = clock_timestamp()
where run_id = $1`, waiting[3].RunID)
	b.Exec(`update effects set state = 'accepted', maybe_sent = true, first_sent_at = clock_timestamp() where run_id = $1`, waiting[4].RunID)
	tenant, actionType, connector := ledgertest.Tenant, ledgertest.ActionType, ledgertest.Connector

	for name, s := range map[string]ledger.Switch{
		"Everything": {Scope: ledger.ScopeGlobal}, "Tenant": {Scope: ledger.ScopeTenant, Key: tenant},
		"ActionType": {Scope: ledger.ScopeActionType, Key: tenant + "/" + actionType},
		"Connector":  {Scope: ledger.ScopeConnector, Key: tenant + "/" + connector},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := b.Operator.DrainReport(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, ledger.Drain{Stopped: 3, InFlight: 1, Unknown: 1}, r.Drain)
			require.Equal(t, []any{1, 1, 1, false}, []any{r.Windowed, r.Retrying, r.Accepted, r.Cut})
			require.WithinDuration(t, r.Now.Add(time.Hour), r.Until, time.Minute)
			require.Len(t, r.Calls, 2)
			require.Equal(t, []string{sent.OperationID(), "sending", waiting[3].OperationID(), "unknown"},
				[]string{r.Calls[0].OperationID, r.Calls[0].State, r.Calls[1].OperationID, r.Calls[1].State})
			require.True(t, r.Until.Equal(r.Calls[0].At))
		})
	}
	for name, s := range map[string]ledger.Switch{
		"AnotherTenant": {Scope: ledger.ScopeTenant, Key: "another"}, "AnotherActionType": {Scope: ledger.ScopeActionType, Key: tenant + "/x"},
		"AnothersActionType": {Scope: ledger.ScopeActionType, Key: "another/" + actionType},
		"AnothersConnector":  {Scope: ledger.ScopeConnector, Key: "another/" + connector},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := b.Operator.DrainReport(t.Context(), s)
			require.NoError(t, err)
			require.Zero(t, r.Drain)
			require.Empty(t, r.Calls)
			require.True(t, r.Until.IsZero())
		})
	}
	t.Run("ItGoesAlongAnIndexAndReadsNoTable", func(t *testing.T) {
		tx, err := b.DB.Pool("").Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(t.Context())
		_, err = tx.Exec(t.Context(), "set local enable_seqscan = off")
		require.NoError(t, err)
		rows, err := tx.Query(t.Context(), "explain "+ledger.DrainSQL, ledger.ScopeTenant, tenant, "", ledger.DrainBound, 20)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		plan := strings.Join(lines, "\n")
		require.NotContains(t, plan, "Seq Scan on effects", plan)
		require.Contains(t, plan, "effects_due")
	})
}

func TestChangeSwitch(t *testing.T) { // D9
	t.Parallel()
	b := ledgertest.New(t)
	change := func(c ledger.SwitchChange) (int64, error) {
		c.Scope, c.Key, c.ChangedBy, c.Reason = ledger.ScopeTenant, ledgertest.Tenant, "olga", "a test"
		return b.Operator.ChangeSwitch(t.Context(), c)
	}
	command := uuid.New()
	first, err := change(ledger.SwitchChange{CommandID: command, Switch: ledger.Switch{Closed: true}, Channel: "web", Authority: []byte(`{"roles":[]}`)})
	require.NoError(t, err)
	again, err := change(ledger.SwitchChange{CommandID: command, Switch: ledger.Switch{Closed: true}, Channel: "web", Authority: []byte(`{}`)})
	require.NoError(t, err)
	require.Equal(t, first, again, "a repeated command is one change")
	_, err = change(ledger.SwitchChange{Switch: ledger.Switch{Closed: true}, Channel: "web"})
	require.ErrorContains(t, err, "kill_switch_changes_authority", "what does not come by the command line says by what right")

	newer, err := change(ledger.SwitchChange{Switch: ledger.Switch{Closed: true}})
	require.NoError(t, err)
	_, err = change(ledger.SwitchChange{Seen: first})
	require.ErrorIs(t, err, ledger.ErrSwitchChanged)
	_, err = change(ledger.SwitchChange{Seen: newer, Switch: ledger.Switch{Ramp: time.Hour}})
	require.NoError(t, err)
	require.Equal(t, 3, b.Count(`select count(*) from kill_switch_changes`))

	states, err := b.Replica(ledger.Approval).SwitchStates(t.Context(), []string{ledgertest.Tenant})
	require.NoError(t, err)
	require.Len(t, states, 1)
	require.Equal(t, []any{ledger.SwitchOpening, newer + 1}, []any{states[0].State(), states[0].Epoch})
	require.InDelta(t, 0, states[0].Share(), 0.1)
	half := states[0]
	half.Now = half.ChangedAt.Add(30 * time.Minute)
	require.InDelta(t, 0.5, half.Share(), 0.001)
	half.Now = half.ChangedAt.Add(time.Hour)
	require.Equal(t, []any{ledger.SwitchOpen, 1.0}, []any{half.State(), half.Share()})
	history, err := b.Operator.SwitchHistory(t.Context(), ledger.Switch{Scope: ledger.ScopeTenant, Key: ledgertest.Tenant}, 2)
	require.NoError(t, err)
	require.Len(t, history, 2)
	require.Equal(t, []any{false, "command"}, []any{history[0].Closed, history[0].Channel})
	require.NotNil(t, history[0].OpenAt)
	none, err := b.Operator.SwitchStates(t.Context(), []string{"another"})
	require.NoError(t, err)
	require.Empty(t, none)
}
