package connector

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// TestRendering has what this release makes of one declaration and one action; letterBytes is what it makes of mail. A release that means
// to make something else counts rendering up, so that an attempt whose process died is not repeated with other bytes (DSP-04).
func TestRendering(t *testing.T) {
	t.Parallel()
	require.Equal(t, 1, rendering, "it belongs to the bytes below, and to letterBytes")
	r := prepare(t, connect(t, "https://api.example.com/base/", func(c *Config) {
		op := c.Connector.Operations[0]
		op.Method, op.Path = "PUT", "/v1/${target.record_id}/pay?reference=${operation_id}&by=a%20b"
		op.Body = map[string]any{"ö": []any{1, 2.50, true, nil, "<${target.record_id}> & é"}, "amount": "${proposed_change.amount}", "Z": map[string]any{}}
		op.Conditional = &config.Conditional{Header: "If-Match", Value: `"${current_version}"`}
		c.Connector.Signing = config.SecretRef{File: "/run/secrets/hook"}
		c.ReadFile = func(string) ([]byte, error) { return []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), nil }
	}), "pay")
	require.Equal(t, "PUT https://api.example.com/base/v1/c-1/pay?reference=op-1&by=a%20b", r.Method+" "+r.URL)
	require.Equal(t, `{"Z":{},"amount":9007199254740993.1,"ö":[1,2.5,true,null,"<c-1> & é"]}`, string(r.Body))
	require.Equal(t, map[string]string{"Accept": "application/json", "Content-Type": "application/json", "Idempotency-Key": "key-1",
		"If-Match": `"v7"`, "User-Agent": "holdpoint", "Webhook-Id": "op-1"}, r.Header)
}

// TestForm: what a request is made of changes the form, and nothing else does.
func TestForm(t *testing.T) {
	t.Parallel()
	declared := func() *config.Connector {
		c := declaration("https://api.example.com")
		c.Operations[0].Conditional = &config.Conditional{Header: "If-Match", Value: "${current_version}"}
		c.Operations[0].Mail = &config.Mail{To: []string{"a"}, Cc: []string{"b"}, ReplyTo: "c", Subject: "d", Text: "e", HTML: "f"}
		c.Mail = &config.MailServer{From: "from@example.com"}
		return c
	}
	of := func(change func(c *config.Connector, op *config.Operation)) string {
		c := declared()
		change(c, c.Operations[0])
		form, err := Form(c)
		require.NoError(t, err)
		return form.String()
	}
	same := of(func(*config.Connector, *config.Operation) {})
	seen := map[string]bool{same: true}
	for i, change := range []func(c *config.Connector, op *config.Operation){
		func(c *config.Connector, _ *config.Operation) { c.Kind = config.ConnectorExecutor },
		func(c *config.Connector, _ *config.Operation) { c.BaseURL += "/v2" },
		func(c *config.Connector, _ *config.Operation) { c.Signing.Env = "SECRET" },
		func(c *config.Connector, _ *config.Operation) { c.Mail.From = "other@example.com" },
		func(_ *config.Connector, op *config.Operation) { op.Name = "other" },
		func(_ *config.Connector, op *config.Operation) { op.Method = "PUT" },
		func(_ *config.Connector, op *config.Operation) { op.Path += "?v=2" },
		func(_ *config.Connector, op *config.Operation) { op.Body = map[string]any{"note": "new"} },
		func(_ *config.Connector, op *config.Operation) { op.IdempotencyHeader = "X-Key" },
		func(_ *config.Connector, op *config.Operation) { op.Conditional.Header = "X-Version" },
		func(_ *config.Connector, op *config.Operation) { op.Conditional.Value = `"${current_version}"` },
		func(_ *config.Connector, op *config.Operation) { op.Mail.To = []string{"x"} },
		func(_ *config.Connector, op *config.Operation) { op.Mail.Cc = nil },
		func(_ *config.Connector, op *config.Operation) { op.Mail.ReplyTo = "x" },
		func(_ *config.Connector, op *config.Operation) { op.Mail.Subject = "x" },
		func(_ *config.Connector, op *config.Operation) { op.Mail.Text = "x" },
		func(_ *config.Connector, op *config.Operation) { op.Mail.HTML = "x" },
	} {
		form := of(change)
		require.False(t, seen[form], "change %d", i)
		seen[form] = true
	}
	require.Equal(t, same, of(func(c *config.Connector, op *config.Operation) {
		c.Timeout, c.Concurrency, c.BearerFile, op.Success, op.Lookup, op.InOrder = time.Minute, 3, "/other", config.Success{Statuses: []int{204}}, nil, true
	}), "what answers mean, and who asks, is no part of what is sent")
}

// TestFormKnowsEverySetting has a setting that is new be told apart: one that changes what is sent belongs to the form, and to TestForm.
func TestFormKnowsEverySetting(t *testing.T) {
	t.Parallel()
	for kind, known := range map[reflect.Type]string{
		// what is sent, then all else
		reflect.TypeFor[config.Connector](): "Kind BaseURL Signing Mail Operations; ID Profile CAFile AllowedHosts BearerEnv BearerFile Basic HeaderKey " +
			"OAuth2 Concurrency Rate Breaker Timeout LeaveWithin MaxResponse Backoff ChecksGoodFor Webhook",
		reflect.TypeFor[config.MailServer](): "From; Server TLS Username Password",
		reflect.TypeFor[config.Operation](): "Name Method Path Body IdempotencyHeader Conditional Mail; Kind KeyWindow KeyMargin Replays InOrder " +
			"Success Refused BusyStatuses InProgressCode KeyReusedCode ErrorCode RefusedCodes BusyCodes UnauthorizedCodes ReceiptVersion " +
			"RequestIDHeader Lookup Read Standing",
		reflect.TypeFor[config.Conditional](): "Header Value; Unproved",
	} {
		var declared []string
		for _, f := range reflect.VisibleFields(kind) {
			declared = append(declared, f.Name)
		}
		require.ElementsMatch(t, strings.Fields(strings.Replace(known, ";", "", 1)), declared, kind.Name())
	}
}
