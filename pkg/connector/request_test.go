package connector

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

func parse(t *testing.T, document string) canonical.Value {
	t.Helper()
	v, err := canonical.Parse([]byte(document))
	require.NoError(t, err)
	return v
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, change func(*config.Operation)) *Connector {
		return connect(t, "https://api.example.com/base/", func(c *Config) { change(c.Connector.Operations[0]) })
	}
	body := func(tree any) func(*config.Operation) { return func(o *config.Operation) { o.Body = tree } }

	t.Run("BuildsTheWholeRequest", func(t *testing.T) {
		t.Parallel()
		r := prepare(t, setup(t, func(*config.Operation) {}), "pay")
		require.Equal(t, "POST", r.Method)
		require.Equal(t, "https://api.example.com/base/v1/payments", r.URL)
		require.Equal(t, `{"amount":9007199254740993.1,"reference":"op-1"}`, string(r.Body), "exact decimals")
		require.Equal(t, map[string]string{
			"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "holdpoint", "Idempotency-Key": "key-1",
		}, r.Header)
	})

	t.Run("TheSameActionGivesTheSameBytes", func(t *testing.T) {
		t.Parallel()
		first := prepare(t, setup(t, func(*config.Operation) {}), "pay")
		for range 20 {
			require.Equal(t, first, prepare(t, setup(t, func(*config.Operation) {}), "pay"))
		}
	})

	t.Run("SurvivesStorage", func(t *testing.T) {
		t.Parallel()
		r := prepare(t, setup(t, func(*config.Operation) {}), "pay")
		stored, err := json.Marshal(r)
		require.NoError(t, err)
		var back Request
		require.NoError(t, json.Unmarshal(stored, &back))
		require.Equal(t, *r, back)
		require.Equal(t, back.Digest, back.Sum())
	})

	t.Run("TheDigestCoversEveryPart", func(t *testing.T) {
		t.Parallel()
		k := setup(t, func(*config.Operation) {})
		seen := map[canonical.Digest]bool{prepare(t, k, "pay").Sum(): true}
		for _, change := range []func(*Request){
			func(r *Request) { r.Operation += "x" },
			func(r *Request) { r.Method = "PUT" },
			func(r *Request) { r.URL += "x" },
			func(r *Request) { r.Header["Idempotency-Key"] = "other" },
			func(r *Request) { r.Header["New"] = "x" },
			func(r *Request) { delete(r.Header, "Accept") },
			func(r *Request) { r.Body = append(r.Body, ' ') },
		} {
			r := prepare(t, k, "pay")
			change(r)
			require.False(t, seen[r.Sum()])
			seen[r.Sum()] = true
		}
	})

	t.Run("BodiesTakeValuesAndText", func(t *testing.T) {
		t.Parallel()
		k := setup(t, body(map[string]any{
			"whole": "${proposed_change}", "nested": []any{"${proposed_change.list.1.k}", "n=${proposed_change.n}!", true, 7, 1.5, nil},
			"ids": "${operation_id}/${idempotency_key}/${tenant_id}/${correlation_id}", "literal": "$${target}", "null": "${proposed_change.nil}",
			"odd": "${proposed_change.a/b~c}", "empty": "",
		}))
		op := operationNamed(t, "pay")
		op.Action = parse(t, `{"proposed_change":{"list":[0,{"k":{"z":1,"a":2}}],"n":1.50,"nil":null,"a/b~c":"x"}}`)
		r, err := k.Prepare(t.Context(), op)
		require.NoError(t, err)
		require.Equal(t, `{"empty":"","ids":"op-1/key-1/acme/corr-1","literal":"${target}","nested":[{"a":2,"z":1},"n=1.5!",true,7,1.5,null],`+
			`"null":null,"odd":"x","whole":{"a/b~c":"x","list":[0,{"k":{"a":2,"z":1}}],"n":1.5,"nil":null}}`, string(r.Body))
	})

	t.Run("PathsAreEscapedForTheirPlace", func(t *testing.T) {
		t.Parallel()
		k := setup(t, func(o *config.Operation) { o.Path = "/x/${target.id}/y?q=${target.id}&n=${target.n}" })
		op := operationNamed(t, "pay")
		op.Action = parse(t, `{"target":{"id":"a/..x/b&c=d?e#f g+h","n":12345678901234567890},"proposed_change":{"amount":1}}`)
		r, err := k.Prepare(t.Context(), op)
		require.NoError(t, err)
		require.Equal(t, "https://api.example.com/base/x/a%2F..x%2Fb&c=d%3Fe%23f%20g+h/y?"+
			"q=a%2F..x%2Fb%26c%3Dd%3Fe%23f+g%2Bh&n=12345678901234567890", r.URL)
	})

	t.Run("WhatDoesNotFitIsRefused", func(t *testing.T) {
		t.Parallel()
		path := func(text string) func(*config.Operation) { return func(o *config.Operation) { o.Path = text } }
		for _, c := range []struct {
			said, action string
			change       func(*config.Operation)
		}{
			{"${target.id} is missing", `{"target":{}}`, path("/${target.id}")},
			{"${target.id} is empty", `{"target":{"id":""}}`, path("/${target.id}")},
			{"is null, which cannot", `{"target":{"id":null}}`, path("/${target.id}")},
			{"is object, which cannot", `{"target":{"id":{}}}`, path("/${target.id}")},
			{`became ".."`, `{"target":{"id":".."}}`, path("/a/${target.id}")},
			{`became "."`, `{"target":{"id":"."}}`, path("/${target.id}?x")},
			{`became ".."`, `{"target":{"id":"."}}`, path("/a/.${target.id}/b")},
			{"path segment of dots", `{"target":{"id":"../../admin"}}`, path("/a/${target.id}")},
			{"path segment of dots", `{"target":{"id":"c-1/.."}}`, path("/a/${target.id}")},
			{"path segment of dots", `{"target":{"id":"c-1\\..\\c-2"}}`, path("/a/${target.id}?x")},
			{"path segment of dots", `{"target":{"id":"a/./b"}}`, path("/a/${target.id}")},
			{"body: ${proposed_change.amount} is missing", `{}`, func(*config.Operation) {}},
			{"is array, which cannot", `{"target":[1]}`, body([]any{map[string]any{"a": "x${target}"}})},
			{"If-Match: ${current_version} is missing", `{"proposed_change":{"amount":1}}`, func(o *config.Operation) {
				o.Conditional = &config.Conditional{Header: "If-Match", Value: "${current_version}"}
			}},
			{"header If-Match", `{"current_version":"a\r\nX-Evil: 1","proposed_change":{"amount":1}}`, func(o *config.Operation) {
				o.Conditional = &config.Conditional{Header: "If-Match", Value: "${current_version}"}
			}},
		} {
			op := operationNamed(t, "pay")
			op.Action = parse(t, c.action)
			_, err := setup(t, c.change).Prepare(t.Context(), op)
			require.ErrorContains(t, err, c.said)
			require.ErrorContains(t, err, `prepare pay of connector "sandbox"`)
		}
	})

	t.Run("KeysThatNoHeaderCanCarryAreRefused", func(t *testing.T) {
		t.Parallel()
		k := setup(t, func(*config.Operation) {})
		for _, key := range []string{"", " x", "é", "a\nb"} {
			op := operationNamed(t, "pay")
			op.IdempotencyKey = key
			_, err := k.Prepare(t.Context(), op)
			require.ErrorContains(t, err, "Idempotency-Key")
		}
		op := operationNamed(t, "pay")
		op.OperationID = ""
		_, err := k.Prepare(t.Context(), op)
		require.ErrorContains(t, err, "${operation_id} is missing")
		_, err = k.Prepare(t.Context(), operationNamed(t, "gone"))
		require.ErrorContains(t, err, `declares no operation "gone"`)
	})

	t.Run("TheDeclarationIsReadable", func(t *testing.T) {
		t.Parallel()
		k := setup(t, func(*config.Operation) {})
		declared, found := k.Declared("update")
		require.True(t, found)
		require.Equal(t, config.OperationUpdate, declared.Kind)
		_, found = k.Declared("gone")
		require.False(t, found)
	})
}

func FuzzPathsStayInTheirPlace(f *testing.F) {
	for _, seed := range []string{"c-1", "..", "a/b", "%2e%2e", "?", "#", "é", " "} {
		f.Add(seed)
	}
	k, err := New(Config{Connector: declaration("https://api.example.com/base")})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id string) {
		text, err := canonical.NewString(id)
		if err != nil {
			return
		}
		target, err := canonical.FromAny(map[string]any{"target": map[string]any{"record_id": text}})
		require.NoError(t, err)
		op := Operation{Name: "delete", Action: target, IdempotencyKey: "k"}
		r, err := k.Prepare(t.Context(), op)
		if err != nil {
			return
		}
		write, err := k.outgoing(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, "api.example.com", write.URL.Host)
		require.Equal(t, "/base/v1/contacts/"+id, write.URL.Path)
		require.Equal(t, r.URL, "https://api.example.com"+write.URL.RequestURI())
	})
}
