package sandbox_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

const hubspotContacts = "/hubspot/crm/v3/objects/contacts"

func (w world) upsert(operation, properties string) reply {
	w.t.Helper()
	return w.must(http.MethodPost, hubspotContacts+"/batch/upsert", fmt.Sprintf(
		`{"inputs":[{"idProperty":"holdpoint_operation_id","id":%q,"objectWriteTraceId":%q,"properties":%s}]}`, operation, operation, properties))
}

func (w world) recordSearch(property, value string) []any {
	w.t.Helper()
	got := w.must(http.MethodPost, hubspotContacts+"/search", fmt.Sprintf(
		`{"filterGroups":[{"filters":[{"propertyName":%q,"operator":"EQ","value":%q}]}]}`, property, value))
	require.Equal(w.t, http.StatusOK, got.status)
	return got.body["results"].([]any)
}

func (r reply) result(t *testing.T) map[string]any {
	t.Helper()
	results, _ := r.body["results"].([]any)
	require.Len(t, results, 1, r.body)
	return results[0].(map[string]any)
}

func TestHubSpot(t *testing.T) {
	t.Parallel()

	t.Run("TheSameUpsertTwiceIsOneRecordAndOneWrite", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		first := w.upsert("op-1", `{"email":"a@example.test","employees":1000000}`).result(t)
		require.Equal(t, []any{true, "op-1"}, []any{first["new"], first["objectWriteTraceId"]})
		again := w.upsert("op-1", `{"email":"a@example.test","employees":"1000000"}`).result(t)
		require.Equal(t, []any{first["id"], nil, first["updatedAt"]}, []any{again["id"], again["new"], again["updatedAt"]})
		require.Equal(t, "op-1", w.written(1)[0].Reference)

		changed := w.upsert("op-1", `{"email":"b@example.test"}`).result(t)
		require.Equal(t, first["id"], changed["id"])
		require.Equal(t, "1000000", changed["properties"].(map[string]any)["employees"], "what is not named stays")
		w.written(2)
	})

	t.Run("AMailAddressOfAnotherRecordConflicts", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.upsert("op-1", `{"email":"a@example.test"}`)
		got := w.upsert("op-2", `{"email":"a@example.test"}`)
		require.Equal(t, []any{http.StatusConflict, "CONFLICT"}, []any{got.status, got.body["category"]})
		w.written(1)
		w.upsert("op-1", `{"email":""}`).result(t)
		w.upsert("op-2", `{"email":"a@example.test"}`).result(t)
	})

	t.Run("ReadingNeverLagsAndSearchDoes", func(t *testing.T) {
		t.Parallel()
		at := &clock{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
		w := newWorld(t, at.use, func(c *sandbox.Config) {
			c.Others = map[string]sandbox.Personality{sandbox.HubSpot: {IndexLag: sandbox.Duration(20 * time.Second)}}
		})
		made := w.upsert("op-1", `{"email":"a@example.test","city":"Porto"}`).result(t)
		for _, path := range []string{"/op-1?idProperty=holdpoint_operation_id&properties=city", "/" + made["id"].(string) + "?properties=city"} {
			got := w.must(http.MethodGet, hubspotContacts+path, "")
			require.Equal(t, made["id"], got.body["id"])
			require.Equal(t, map[string]any{"city": "Porto"}, got.body["properties"], "and only what was asked for")
		}
		at.now = at.now.Add(19 * time.Second)
		require.Empty(t, w.recordSearch("email", "a@example.test"))
		at.now = at.now.Add(time.Second)
		require.Len(t, w.recordSearch("email", "a@example.test"), 1)
		require.Empty(t, w.recordSearch("email", "b@example.test"))
	})

	t.Run("UpdatesNameTheRecordByIDOrUniqueProperty", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		id := w.upsert("op-1", `{"email":"a@example.test"}`).result(t)["id"].(string)
		for i, by := range []string{`"id":"` + id + `"`, `"id":"a@example.test","idProperty":"email"`} {
			got := w.must(http.MethodPost, hubspotContacts+"/batch/update",
				fmt.Sprintf(`{"inputs":[{%s,"objectWriteTraceId":"op-u%d","properties":{"city":"%d"}}]}`, by, i, i))
			require.Equal(t, id, got.result(t)["id"])
		}
		require.Equal(t, "op-u1", w.written(3)[2].Reference)
		missing := w.must(http.MethodPost, hubspotContacts+"/batch/update", `{"inputs":[{"id":"7","properties":{}}]}`)
		require.Equal(t, http.StatusMultiStatus, missing.status)
		require.Equal(t, "OBJECT_NOT_FOUND", missing.body["errors"].([]any)[0].(map[string]any)["category"])
		require.Equal(t, http.StatusNotFound, w.must(http.MethodGet, hubspotContacts+"/7", "").status)
	})

	t.Run("WhatItDoesNotTake", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for _, input := range []string{``, `{"id":"","idProperty":"email"}`, `{"id":"a","idProperty":"city"}`,
			`{"id":"a","idProperty":"email","properties":{"a":{}}}`, `{"id":"a","idProperty":"email","properties":{"a":[1]}}`} {
			body := `{"inputs":[` + input + `]}`
			got := w.must(http.MethodPost, hubspotContacts+"/batch/upsert", body)
			require.Equal(t, []any{http.StatusBadRequest, "VALIDATION_ERROR"}, []any{got.status, got.body["category"]}, body)
		}
		got := w.must(http.MethodPost, hubspotContacts+"/search", `{"filterGroups":[]}`)
		require.Equal(t, http.StatusBadRequest, got.status)
		w.written(0)
	})

	t.Run("FaultsApplyAndAreWrittenItsWay", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(sandbox.Rule{Match: sandbox.Match{System: sandbox.HubSpot, Reference: "op-1", Count: 1},
			Fault: sandbox.Fault{Kind: sandbox.RateLimit, RetryAfter: "3"}})
		limited := w.upsert("op-1", `{}`)
		require.Equal(t, []any{http.StatusTooManyRequests, "3", "rate_limited"},
			[]any{limited.status, limited.header.Get("Retry-After"), limited.body["category"]})
		w.fault(sandbox.Rule{Match: sandbox.Match{System: sandbox.HubSpot, Operation: sandbox.Lookup},
			Fault: sandbox.Fault{Kind: sandbox.LookupDuplicate}})
		w.upsert("op-1", `{"city":"Porto"}`)
		require.Len(t, w.recordSearch("city", "Porto"), 2)
	})
}
