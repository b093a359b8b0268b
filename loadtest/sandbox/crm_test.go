package sandbox_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

func TestCRM(t *testing.T) {
	t.Parallel()

	t.Run("UntouchedContactExistsAtVersionOne", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		got := w.must(http.MethodGet, "/crm/contacts/c-1", "")
		require.Equal(t, http.StatusOK, got.status)
		require.Equal(t, "1", got.body["version"])
		require.Equal(t, `"1"`, got.header.Get("ETag"))
		w.written(0)
	})

	t.Run("UpdateRaisesTheVersionMergesFieldsAndIsFound", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		first := w.patch("c-1", "1", "op-1")
		require.Equal(t, http.StatusOK, first.status)
		require.Equal(t, "c-1", first.body["id"])
		require.Equal(t, "2", first.body["version"])
		const body = `{"fields":{"employees":"42"},"reference":"op-2"}`
		second := w.must(http.MethodPatch, "/crm/contacts/c-1", body, "If-Match", "2")
		require.Equal(t, "3", second.body["version"])

		contact := w.must(http.MethodGet, "/crm/contacts/c-1", "")
		require.Equal(t, "3", contact.body["version"])
		require.Equal(t, map[string]any{"city": "Porto", "phone": "+351 210 000 000", "segment": "trial", "employees": "42"},
			contact.body["fields"], "over what it held before")

		found := w.must(http.MethodGet, "/crm/updates?reference=op-1", "").items()
		require.Len(t, found, 1)
		update := found[0].(map[string]any)
		require.Equal(t, first.body["update_id"], update["id"])
		require.Equal(t, []any{"op-1", "c-1", "2"}, []any{update["reference"], update["contact_id"], update["version"]})
	})

	t.Run("FieldsMustBeAnObject", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for _, body := range []string{`{"fields":["a"]}`, `{"fields":"a"}`, `{"fields":null}`} {
			got := w.must(http.MethodPatch, "/crm/contacts/c-1", body, "If-Match", "1")
			require.Equal(t, "invalid_fields", got.code(), body)
		}
		w.written(0)
	})

	t.Run("StaleVersionConflictsAndWritesNothing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.patch("c-1", "1", "op-1")
		got := w.patch("c-1", "1", "op-2", "Idempotency-Key", "k-2")
		require.Equal(t, http.StatusPreconditionFailed, got.status)
		require.Equal(t, "version_conflict", got.code())
		w.written(1)
		require.Equal(t, http.StatusOK, w.patch("c-1", "2", "op-2", "Idempotency-Key", "k-2").status, "the key is free again")
	})

	t.Run("AbsentVersionIsRefusedUnlessThePersonalityIsLax", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		got := w.must(http.MethodPatch, "/crm/contacts/c-1", `{}`)
		require.Equal(t, http.StatusPreconditionRequired, got.status)
		require.NoError(t, w.SetPersonality(t.Context(), sandbox.CRM, sandbox.Personality{LaxVersions: true}))
		require.Equal(t, "2", w.must(http.MethodPatch, "/crm/contacts/c-1", `{}`).body["version"])
		require.Equal(t, "3", w.must(http.MethodPatch, "/crm/contacts/c-1", `{}`, "If-Match", `*`).body["version"])
		require.Equal(t, "4", w.must(http.MethodPatch, "/crm/contacts/c-1", `{}`, "If-Match", `"9", W/"3"`).body["version"])
	})

	t.Run("RacingUpdatesOfOneVersionHaveOneWinner", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		var won atomic.Int32
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				got, err := w.do(t.Context(), http.MethodPatch, "/crm/contacts/c-1", `{}`, "If-Match", "1")
				if err == nil && got.status == http.StatusOK {
					won.Add(1)
				}
			})
		}
		group.Wait()
		require.EqualValues(t, 1, won.Load())
		w.written(1)
	})

	t.Run("CreatedContactIsUniqueByExternalID", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		const body = `{"external_id":"x-1","fields":{"name":"Ada"},"reference":"op-1"}`
		made := w.must(http.MethodPost, "/crm/contacts", body)
		require.Equal(t, http.StatusCreated, made.status)
		require.Equal(t, []any{"1", "x-1"}, []any{made.body["version"], made.body["external_id"]})

		again := w.must(http.MethodPost, "/crm/contacts", body)
		require.Equal(t, http.StatusConflict, again.status)
		require.Equal(t, "already_exists", again.code())
		require.Equal(t, []any{made.body}, w.must(http.MethodGet, "/crm/contacts?external_id=x-1", "").items())
		require.Empty(t, w.must(http.MethodGet, "/crm/contacts?external_id=x-2", "").items())
		require.Equal(t, http.StatusBadRequest, w.must(http.MethodGet, "/crm/contacts", "").status)

		id := made.body["id"].(string)
		require.Equal(t, "2", w.patch(id, "1", "op-2").body["version"])
		require.Equal(t, "x-1", w.must(http.MethodGet, "/crm/contacts/"+id, "").body["external_id"])
		w.written(2)
	})
}
