package ledger_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

func refused(id string) ledger.Parked {
	return ledger.Parked{Consumer: ledger.Intake, TenantID: ledgertest.Tenant, Subject: "holdpoint.ingress.demo.crm", Reason: "key_missing",
		Detail: "There is no key.", Headers: map[string]string{"Nats-Msg-Id": id}, Body: []byte(`{"a":1}`), Deliveries: 1,
		Refusal: &contracts.RunRefused{TenantID: ledgertest.Tenant, Source: "crm", Reason: "key_missing", MessageID: id}}
}

func TestPark(t *testing.T) { // B5
	t.Parallel()
	shared := ledgertest.New(t)

	t.Run("MessageIsKeptWholeAndTheTenantIsTold", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		require.NoError(t, b.Intake.Park(t.Context(), []ledger.Parked{refused("whole")}))
		require.Equal(t, `parked key_missing: There is no key. {"a":1}`, b.Text(`select concat_ws(' ', state, reason, convert_from(body, 'UTF8'))
from parked_messages where headers->>'Nats-Msg-Id' = 'whole'`))
		require.Equal(t, 1, b.Count(`select count(*) from event_log join pending using (event_id)
where convert_from(payload, 'UTF8')::json->>'type' = $1 and convert_from(payload, 'UTF8')::json->'data'->>'message_id' = 'whole'`, contracts.TypeRunRefused))
	})

	for name, spoil := range map[string]func(*ledger.Parked){
		"WithNULInItsHeaders":       func(p *ledger.Parked) { p.Headers["x"] = "a\x00b" },
		"ThatIsNotUTF8":             func(p *ledger.Parked) { p.Detail, p.Subject, p.Headers["\xff"] = "bad byte \xff", "s\xff", "\xff" },
		"WithoutABody":              func(p *ledger.Parked) { p.Body = nil },
		"WithoutHeaders":            func(p *ledger.Parked) { p.Headers = nil },
		"OfWhichNobodyIsTold":       func(p *ledger.Parked) { p.Refusal = nil },
		"ThatTheTenantCannotBeTold": func(p *ledger.Parked) { p.Refusal.Source = "" },
	} {
		t.Run("Message"+name+"BlocksNobody", func(t *testing.T) {
			t.Parallel()
			b := shared.For(t)
			bad := refused(name)
			bad.Reason = name
			spoil(&bad)
			good := refused(name)
			good.Reason = name
			require.NoError(t, b.Intake.Park(t.Context(), []ledger.Parked{good, bad}))
			require.Equal(t, 2, b.Count(`select count(*) from parked_messages where reason like $1`, name+"%"))
		})
	}

	t.Run("MessageThatComesAgainIsParkedAndToldOnce", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		again := refused("again")
		again.Message = "HOLDPOINT_INGRESS_DEMO/7/1"
		for range 3 {
			require.NoError(t, b.Intake.Park(t.Context(), []ledger.Parked{again}))
		}
		require.Equal(t, 1, b.Count(`select count(*) from parked_messages where headers->>'Nats-Msg-Id' = 'again'`))
		require.Equal(t, 1, b.Count(`select count(*) from event_log
where convert_from(payload, 'UTF8')::json->'data'->>'message_id' = 'again'`))
	})

	t.Run("OurOwnEventIsMarkedAsParked", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		event := newID()
		require.NoError(t, b.Policy.Park(t.Context(), []ledger.Parked{{Consumer: ledger.Policy, TenantID: ledgertest.Tenant,
			Subject: contracts.SubjectIntentSubmitted, EventID: event, Reason: "schema", Body: []byte("{}")}}))
		require.Equal(t, 1, b.Count(`select count(*) from inbox where event_id = $1 and consumer = 1 and parked`, event))
		require.Equal(t, event.String(), b.Text(`select event_id::text from parked_messages where consumer = 'policy'`))
	})
}

func TestReplay(t *testing.T) { // B5
	t.Parallel()
	shared := ledgertest.New(t)
	parked := func(t *testing.T, b *ledgertest.Bench, m ledger.Parked) ledger.ParkedRow {
		t.Helper()
		m.Reason = t.Name()
		require.NoError(t, b.Intake.Park(t.Context(), []ledger.Parked{m}))
		rows, err := b.Operator.ParkedMessages(t.Context(), 1000)
		require.NoError(t, err)
		for _, row := range rows {
			if row.Reason == m.Reason+": "+m.Detail {
				return row
			}
		}
		t.Fatal("the message is not listed")
		return ledger.ParkedRow{}
	}

	t.Run("MessageIsSentAgainOnce", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		m := refused("again")
		m.Body = []byte(`{"again":1}`) // another case's replay has the same subject
		row := parked(t, b, m)
		require.NoError(t, b.Operator.Replay(t.Context(), row.ID, "olga", ledger.Edit{}))
		require.ErrorIs(t, b.Operator.Replay(t.Context(), row.ID, "olga", ledger.Edit{}), ledger.ErrNotParked)
		require.ErrorIs(t, b.Operator.Discard(t.Context(), row.ID, "olga"), ledger.ErrNotParked)
		require.Equal(t, "replayed olga", b.Text(`select state || ' ' || settled_by from parked_messages where parked_id = $1`, row.ID))
		require.Equal(t, 1, b.Count(`select count(*) from event_log join pending using (event_id)
where stream = 'HOLDPOINT_INGRESS_DEMO' and subject = $1 and payload = $2 and not headers ? 'Nats-Msg-Id'`, row.Subject, row.Body))
	})

	t.Run("MessageIsCorrectedOnTheWay", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		row := parked(t, b, refused("fixed"))
		require.NoError(t, b.Operator.Replay(t.Context(), row.ID, "olga", ledger.Edit{Body: []byte(`{"key":"k9"}`),
			Headers: map[string]string{"Holdpoint-Key": "k9"}}))
		require.Equal(t, "k9", b.Text(`select headers->>'Holdpoint-Key' from event_log where payload = $1`, []byte(`{"key":"k9"}`)))
		require.Equal(t, string(row.Body), b.Text(`select convert_from(body, 'UTF8') from parked_messages where parked_id = $1`, row.ID), "what came is kept")
	})

	t.Run("MessageWithoutHeadersCanBeCorrected", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		m := refused("bare")
		m.Headers = nil
		row := parked(t, b, m)
		require.NoError(t, b.Operator.Replay(t.Context(), row.ID, "olga", ledger.Edit{Headers: map[string]string{"Holdpoint-Key": "bare"}}))
		require.Equal(t, 1, b.Count(`select count(*) from event_log where headers->>'Holdpoint-Key' = 'bare'`))
	})

	t.Run("MessageOfNoStreamStaysParked", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		m := refused("nowhere")
		m.Subject = "elsewhere"
		row := parked(t, b, m)
		require.ErrorContains(t, b.Operator.Replay(t.Context(), row.ID, "olga", ledger.Edit{}), "no stream")
		require.Equal(t, "parked", b.Text(`select state from parked_messages where parked_id = $1`, row.ID))
		require.NoError(t, b.Operator.Discard(t.Context(), row.ID, "olga"))
		require.Equal(t, "discarded", b.Text(`select state from parked_messages where parked_id = $1`, row.ID))
	})

	t.Run("SomebodyIsNamed", func(t *testing.T) {
		t.Parallel()
		require.ErrorContains(t, shared.Operator.Discard(t.Context(), uuid.New(), ""), "somebody")
	})
}
