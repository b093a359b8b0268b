package connector

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// TestSuccessByBody is about providers that say inside of HTTP 200 what came of a call (D6).
func TestSuccessByBody(t *testing.T) {
	t.Parallel()
	chat := func(c *Config) {
		op := c.Connector.Operations[0]
		op.Success = config.Success{ExternalID: "/ts", Where: &config.Condition{Pointer: "/ok", Equals: true},
			PendingWhere: &config.Condition{Pointer: "/step", Equals: json.Number("1")}}
		op.ErrorCode, op.ReceiptVersion = "/error", ""
		op.RefusedCodes, op.BusyCodes, op.UnauthorizedCodes = []string{"no_channel"}, []string{"ratelimited"}, []string{"expired"}
		op.InProgressCode, op.KeyReusedCode = "in_flight", "key_reused"
	}
	for name, c := range map[string]struct {
		status int
		body   string
		want   outcome.Class
		says   string
	}{
		"ItSaysSo":                        {200, `{"ok":true,"ts":"1"}`, outcome.Succeeded, "HTTP 200"},
		"ItSaysSoWithoutTheID":            {200, `{"ok":true}`, outcome.Ambiguous, "lacks the id"},
		"ItSaysSoWithAnUnknownCode":       {200, `{"ok":true,"ts":"1","error":"odd"}`, outcome.Ambiguous, "carries an error code"},
		"ItSaysSoWithAnErrorThatIsNoCode": {200, `{"ok":true,"ts":"1","error":{"message":"declined"}}`, outcome.Ambiguous, "where its errors are"},
		"ItSaysSoWithAListOfErrors":       {200, `{"ok":true,"ts":"1","error":["declined"]}`, outcome.Ambiguous, "where its errors are"},
		"ItSaysSoWithAnErrorThatIsTrue":   {200, `{"ok":true,"ts":"1","error":true}`, outcome.Ambiguous, "where its errors are"},
		"ItSaysSoWithALongError": {200, `{"ok":true,"ts":"1","error":"` + strings.Repeat("x", maxID+1) + `"}`, outcome.Ambiguous,
			"where its errors are"},
		"ItSaysSoWithNoErrors":             {200, `{"ok":true,"ts":"1","error":[]}`, outcome.Succeeded, "HTTP 200"},
		"ItSaysSoWithANullError":           {200, `{"ok":true,"ts":"1","error":null}`, outcome.Succeeded, "HTTP 200"},
		"ItSaysSoWithAnEmptyError":         {200, `{"ok":true,"ts":"1","error":""}`, outcome.Succeeded, "HTTP 200"},
		"ItSaysSoWithoutAnError":           {200, `{"ok":true,"ts":"1","error":false}`, outcome.Succeeded, "HTTP 200"},
		"ItDoesNotSaySo":                   {200, `{"ok":false,"ts":"1"}`, outcome.Ambiguous, "does not say so at /ok"},
		"ItSaysNothing":                    {200, `{"ts":"1"}`, outcome.Ambiguous, "does not say so"},
		"ItSaysSoOfAnotherKind":            {200, `{"ok":"true","ts":"1"}`, outcome.Ambiguous, "does not say so"},
		"ItSaysPending":                    {200, `{"step":1.0,"ts":"1"}`, outcome.Accepted, "HTTP 200"},
		"AnUnlistedCode":                   {200, `{"ok":false,"error":"fatal_error"}`, outcome.Ambiguous, "fatal_error"},
		"ARefusedCode":                     {200, `{"ok":false,"error":"no_channel"}`, outcome.Refused, `with code "no_channel"`},
		"ABusyCode":                        {200, `{"ok":false,"error":"ratelimited"}`, outcome.RejectedBusy, "ratelimited"},
		"AnUnauthorizedCode":               {200, `{"ok":false,"error":"expired"}`, outcome.Unauthorized, "expired"},
		"AnInFlightCode":                   {200, `{"ok":false,"error":"in_flight"}`, outcome.InProgress, "in_flight"},
		"AReusedKeyCode":                   {200, `{"ok":false,"error":"key_reused"}`, outcome.KeyReused, "key_reused"},
		"ARefusedCodeThatSaysOKBesides":    {200, `{"ok":true,"ts":"1","error":"no_channel"}`, outcome.Ambiguous, "besides"},
		"ABusyCodeThatSaysPendingBesides":  {200, `{"step":1,"error":"ratelimited"}`, outcome.Ambiguous, "besides"},
		"ABusyCodeUnderAnyStatus":          {400, `{"error":"ratelimited"}`, outcome.RejectedBusy, "HTTP 400"},
		"ARefusedCodeUnderAnyStatus":       {409, `{"error":"no_channel"}`, outcome.Refused, "HTTP 409"},
		"AnUnlistedCodeLeavesItToTheState": {422, `{"error":"odd"}`, outcome.Refused, "HTTP 422"},
		"ASuccessThatIsNotJSON":            {200, `ok`, outcome.Ambiguous, "cannot be read"},
		"AnAcceptedStatusIsEnough":         {202, `{"ts":"1"}`, outcome.Accepted, "HTTP 202"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := connect(t, serve(t, answering(c.status, c.body, "Retry-After", "7")), chat)
			result := pay(t, k)
			require.Equal(t, c.want, result.Class, result.Detail)
			require.Contains(t, result.Detail, c.says)
			switch c.want {
			case outcome.Succeeded, outcome.Accepted:
				require.Equal(t, "1", result.ExternalID)
			case outcome.RejectedBusy:
				require.Equal(t, 7*time.Second, result.RetryAfter)
			}
		})
	}

	t.Run("AnErrorThatIsCutOffTellsNothing", func(t *testing.T) {
		t.Parallel()
		k := connect(t, serve(t, answering(400, `{"error":"`+string(make([]byte, 5000)))), chat)
		require.Equal(t, outcome.Ambiguous, pay(t, k).Class)
	})

	t.Run("WhatCannotBeComparedIsRefused", func(t *testing.T) {
		t.Parallel()
		declared := declaration("https://api.example.com")
		declared.Operations[0].Success.Where = &config.Condition{Pointer: "ok", Equals: make(chan int)}
		_, err := New(Config{Connector: declared})
		require.ErrorContains(t, err, `the value at "ok"`)
		require.ErrorContains(t, err, `pointer "ok" must begin`)
	})
}

// TestVersionInTheBody is D5 for providers that know no If-Match.
func TestVersionInTheBody(t *testing.T) {
	t.Parallel()
	for _, status := range []int{409, 412} {
		k := connect(t, serve(t, answering(status, "")), func(c *Config) {
			op := c.Connector.Operations[1]
			op.Conditional, op.Body = &config.Conditional{}, map[string]any{"version": "${current_version}", "new": "${proposed_change}"}
		})
		r := prepare(t, k, "update")
		require.JSONEq(t, `{"version":"v7","new":{"amount":9007199254740993.10}}`, string(r.Body))
		require.NotContains(t, r.Header, "If-Match")
		result := k.Execute(t.Context(), r, allow)
		require.Equal(t, outcome.VersionConflict, result.Class, result.Detail)
	}
}
