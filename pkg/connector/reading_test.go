package connector

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestReadHeld(t *testing.T) {
	t.Parallel()
	read := func(t *testing.T, declared config.Read, change, answer string) (Reading, error) {
		t.Helper()
		seen := make(chan string, 1)
		k := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			seen <- r.Method + " " + r.RequestURI
			answering(200, answer)(w, r)
		}), func(c *Config) {
			c.Connector.MaxResponse = 1 << 20
			declared.Path, declared.Version = "/v1/contacts/${target.record_id}", "/version"
			c.Connector.Operations[1].Read = &declared
		})
		op := operationNamed(t, "update")
		op.Action = parse(t, `{"target":{"system":"crm","record_id":"c-1"},"current_version":"v7","proposed_change":`+change+`}`)
		got, err := k.ReadHeld(t.Context(), op)
		require.Equal(t, "GET /v1/contacts/c-1", <-seen)
		return got, err
	}
	whole, data := "", "/data"

	t.Run("TakesOnlyWhatWouldChange", func(t *testing.T) {
		t.Parallel()
		got, err := read(t, config.Read{Values: &whole}, `{"fields":{"city":"Lisbon","address":{"zip":"1"},"tags":["a"],"new":1}}`,
			`{"version":"v8","secret":"s","fields":{"city":"Porto","address":{"zip":"2","street":"x"},"tags":["b","c"],"phone":"1"}}`)
		require.NoError(t, err)
		require.True(t, got.Found)
		require.Equal(t, "v8", got.Version)
		require.JSONEq(t, `{"/fields/city":"Porto","/fields/address/zip":"2","/fields/tags":["b","c"]}`, string(got.Held))
	})
	t.Run("FieldsComeBeforeValuesAndTheLongestCounts", func(t *testing.T) {
		t.Parallel()
		got, err := read(t, config.Read{Values: &data, Fields: map[string]string{"/amount": "/sum", "/deep": "/below", "/deep/x": "/other"}},
			`{"amount":1,"note":"n","deep":{"x":1,"y":2},"amounts":3}`,
			`{"version":1,"sum":12345678901234567890.10,"data":{"note":"old","amount":0,"amounts":4},"below":{"x":"no","y":"yes"},"other":true}`)
		require.NoError(t, err)
		require.Equal(t, `{"/amount":12345678901234567890.1,"/amounts":4,"/deep/x":true,"/deep/y":"yes","/note":"old"}`, string(got.Held))
	})
	t.Run("WithoutValuesOnlyTheVersionIsRead", func(t *testing.T) {
		t.Parallel()
		got, err := read(t, config.Read{}, `{"city":"x"}`, `{"version":"v8","city":"y"}`)
		require.NoError(t, err)
		require.Equal(t, Reading{Found: true, Version: "v8"}, got)
	})
	t.Run("WhatIsTooLargeIsNotKept", func(t *testing.T) {
		t.Parallel()
		_, err := read(t, config.Read{Values: &whole}, `{"note":"x"}`, `{"version":"v8","note":"`+strings.Repeat("y", MaxHeld)+`"}`)
		require.ErrorContains(t, err, "and at most 65536 are kept")
		require.NotContains(t, err.Error(), "yyy")
	})
	t.Run("WhatIsGoneOrCannotBeReadIsToldApart", func(t *testing.T) {
		t.Parallel()
		got, err := connect(t, serve(t, answering(404, "")), nil).ReadHeld(t.Context(), operationNamed(t, "update"))
		require.NoError(t, err)
		require.Equal(t, Reading{}, got)
		_, err = connect(t, serve(t, answering(503, "")), nil).ReadHeld(t.Context(), operationNamed(t, "update"))
		require.ErrorContains(t, err, "HTTP 503")
		_, err = connect(t, closedPort(t), nil).ReadHeld(t.Context(), operationNamed(t, "pay"))
		require.ErrorIs(t, err, ErrNotDeclared)
		e, err := NewExecutor(&config.Connector{ID: "w", Kind: config.ConnectorExecutor})
		require.NoError(t, err)
		_, err = e.ReadHeld(t.Context(), Operation{Name: "reserve"})
		require.ErrorIs(t, err, ErrNotDeclared)
	})
}
