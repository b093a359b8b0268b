package proposer

import (
	"encoding/json"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/services/proposer/modeltest"
)

// sentBack is a draft that nora wants better.
var sentBack = contracts.SentBack{Revision: 1, SentBy: "nora", Reasons: json.RawMessage(`[{"code":"sent_back","message":"Name the district."}]`),
	Intent: json.RawMessage(`{"actions":[{"target":{"system":"crm","record_id":"c-1001"},"proposed_change":{"fields":{"city":"Porto"}}}]}`)}

// TestSentBack: a draft that was sent back is made anew, with what was drafted and why it would not do, and with nothing else that the
// model was not shown before (P2, A18, M1).
func TestSentBack(t *testing.T) {
	t.Parallel()

	t.Run("AModelIsToldWithEveryRequestEvenAfterARepair", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, []modeltest.Reply{modeltest.Says("no JSON"), modeltest.Says(lisbon)})
		again := task(event)
		again.SentBack = &sentBack
		_, err := w.handle(t.Context(), again)
		require.NoError(t, err)
		require.Len(t, w.server.Calls(), 2)
		for _, call := range w.server.Calls() {
			require.Contains(t, string(call.Body), "Name the district.")
			require.Contains(t, string(call.Body), "Porto")
			require.NotContains(t, string(call.Body), "nora")
			require.NotContains(t, string(call.Body), "c-1001")
		}
	})

	t.Run("AnAgentIsAskedUnderAnotherIdSoThatItDraftsAnew", func(t *testing.T) {
		t.Parallel()
		w := newAgentWorld(t, modeltest.Sends(lisbon))
		again := task(event)
		again.SentBack = &sentBack
		_, err := w.handle(t.Context(), again)
		require.NoError(t, err)
		call := w.server.Calls()[0]
		require.Equal(t, "r-1-2", call.Header.Get(standardwebhooks.HeaderWebhookID))
		var sent struct {
			Data struct {
				SentBack json.RawMessage `json:"sent_back"`
			}
		}
		require.NoError(t, json.Unmarshal(call.Body, &sent))
		require.JSONEq(t, `{"reasons":["Name the district."],"proposed_change":{"fields":{"city":"Porto"}}}`, string(sent.Data.SentBack))
	})
}
