package connector

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// TestVerify is the comparison of R7.
func TestVerify(t *testing.T) {
	t.Parallel()
	whole := ""
	for name, c := range map[string]struct {
		change, receipt, answer string
		status                  int
		verdict                 Verdict
		evidence                string
	}{
		"AsWritten": {`{"city":"Lisbon","tags":["a"]}`, "v8", `{"version":"v8","city":"Lisbon","tags":["a"],"x":1}`, 200, Matched,
			"version v8; of 2 fields all are as written"},
		"AsWrittenAtAnotherVersion":   {`{"city":"Lisbon"}`, "v8", `{"version":"v9","city":"Lisbon"}`, 200, Matched, "version v9"},
		"ANumberKeptAsText":           {`{"amount":12.50,"zip":"0120"}`, "", `{"version":1,"amount":"12.5","zip":"0120"}`, 200, Matched, ""},
		"TextKeptAsANumber":           {`{"amount":"12.50"}`, "", `{"version":1,"amount":12.5}`, 200, Matched, ""},
		"AnotherNumber":               {`{"amount":12.50}`, "", `{"version":1,"amount":12.51}`, 200, Differs, ": /amount"},
		"TextIsNotTrue":               {`{"ok":"true"}`, "", `{"version":1,"ok":true}`, 200, Differs, "/ok"},
		"AFieldThatWasTakenAway":      {`{"city":null}`, "", `{"version":1}`, 200, Matched, ""},
		"AFieldThatIsNotThere":        {`{"city":"Lisbon"}`, "v8", `{"version":"v8"}`, 200, Differs, "of 1 fields these are not as written: /city"},
		"SomethingElseAtALaterOne":    {`{"city":"Lisbon"}`, "v8", `{"version":"v9","city":"Faro"}`, 200, MovedOn, "the write made version v8"},
		"SomethingElseAndNoReceipt":   {`{"city":"Lisbon"}`, "", `{"version":"v9","city":"Faro"}`, 200, Differs, "version v9"},
		"ATargetThatIsGone":           {`{"city":"Lisbon"}`, "v8", ``, 404, Differs, "does not exist"},
		"AnAnswerThatCannotBeRead":    {`{"city":"Lisbon"}`, "v8", `{`, 200, Unclear, "read the target of update"},
		"AServerThatFails":            {`{"city":"Lisbon"}`, "v8", ``, 500, Unclear, "HTTP 500"},
		"NeverAValueInTheEvidence":    {`{"city":"Lisbon"}`, "", `{"version":"v9","city":"secret"}`, 200, Differs, "/city"},
		"AnEmptyChangeAtTheReceipt":   {`{}`, "v8", `{"version":"v8"}`, 200, Matched, ""},
		"NestedFieldsAreTakenByLeafs": {`{"a":{"b":1,"c":2}}`, "", `{"version":1,"a":{"b":1,"c":3,"d":4}}`, 200, Differs, ": /a/c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					t.Errorf("%s writes", r.Method)
				}
				answering(c.status, c.answer)(w, r)
			}), func(cfg *Config) {
				cfg.Connector.Operations[1].Read = &config.Read{Path: "/v1/contacts/${target.record_id}", Version: "/version", Values: &whole}
			})
			op := operationNamed(t, "update")
			op.Action = parse(t, `{"target":{"system":"crm","record_id":"c-1"},"current_version":"v7","proposed_change":`+c.change+`}`)
			result := k.Verify(t.Context(), op, c.receipt)
			require.Equal(t, c.verdict, result.Verdict, result.Evidence)
			require.Contains(t, result.Evidence, c.evidence)
			require.NotContains(t, result.Evidence, "secret")
			require.Equal(t, c.verdict != Unclear, result.Conclusive)
		})
	}
}
