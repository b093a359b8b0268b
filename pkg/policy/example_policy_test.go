package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// The example that ships must route as its comments say.
func TestTheExamplePolicy(t *testing.T) {
	t.Parallel()
	loaded, err := config.LoadEnv(exampleFiles, func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	engine, err := New(loaded.Tenants[0])
	require.NoError(t, err)
	require.Equal(t, loaded.Tenants[0].PolicyVersion, engine.PolicyVersion())

	contact := func(fields, version string) Input {
		return Input{ActionType: "crm.contact.update", Target: Target{"crm", "c-1"}, CurrentVersion: "7", Now: noon,
			ProposedChange: parse(t, `{"fields": `+fields+`}`), WorkflowVersion: "crm-enrichment@3",
			Evidence: []Evidence{{Source: "crm", Version: version, ObservedAt: noon.Add(-time.Hour)}}}
	}
	refund := func(amount string) Input {
		return Input{ActionType: "payment.refund", Target: Target{"payments", "pay-1"}, Now: noon,
			ProposedChange:  parse(t, `{"payment_id": "pay-1", "amount": `+amount+`, "currency": "EUR"}`),
			WorkflowVersion: "support-refunds@2",
			Evidence:        []Evidence{{Source: "payments", Version: "1", ObservedAt: noon.Add(-30 * time.Minute)}}}
	}
	cases := []struct {
		name  string
		in    Input
		route string
		codes []string
	}{
		{"ASmallChangeGoesByItself", contact(`{"phone": "+49 30 1234567"}`, "7"), config.RouteAuto,
			[]string{CodeRuleMatched}},
		{"EvidenceOfAnotherVersionDoesNot", contact(`{"phone": "+49 30 1234567"}`, "6"), config.RouteHumanReview,
			[]string{CodeNoRuleMatched, CodeEvidenceContradictory}},
		{"ThreeFieldsDoNot", contact(`{"phone": "+49 30 1234567", "city": "Berlin", "job_title": "CTO"}`, "7"),
			config.RouteHumanReview, []string{CodeNoRuleMatched}},
		{"AnEMailAddressDoesNot", contact(`{"email": "a@example.com"}`, "7"), config.RouteHumanReview,
			[]string{CodeRuleMatched}},
		{"AnUnknownFieldIsRejected", contact(`{"owner": "me"}`, "7"), config.RouteReject, []string{CodeSchemaInvalid}},
		{"ASmallRefundIsForAPerson", refund("99.99"), config.RouteHumanReview, []string{CodeNoRuleMatched, CodeIrreversible}},
		{"ALargerRefundIsForTheLead", refund("100.01"), config.RouteHumanReview, []string{CodeRuleMatched, CodeIrreversible}},
		{"AHugeRefundIsRejected", refund("5000.01"), config.RouteReject, []string{CodeRuleMatched, CodeIrreversible}},
		{"ARefundAsTextIsRejected", refund(`"10"`), config.RouteReject, []string{CodeSchemaInvalid}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := engine.Decide(tc.in)
			require.Equal(t, tc.route, d.Route, "%v", d.Reasons)
			require.Equal(t, tc.codes, d.Codes())
		})
	}
}
