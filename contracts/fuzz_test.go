package contracts

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzMembers looks for text that the scanner of events takes apart otherwise than encoding/json does.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{}`, ` { "a" : 1 , "b":[1,{"c":"}"}] } `, `{"a":"\"}","\u0061":2}`, `{"a":1,"a":2}`, `{"\\":"\\\\"}`,
		`[]`, `"{"`, `1`, ` null `, `{"a":-1.5e+7,"b":true,"c":null}`, `{"":{"":{}}}`, "{\"\t\":1}", `{"a":[[[[]]]],"b":[ ]}`,
		"{\n\"a\"\r\n:\t\"b\"\n}", `{"\ud800":1}`, strings.Repeat(`{"a":`, 50) + "1" + strings.Repeat("}", 50)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) || !utf8.Valid(data) {
			return // Decode refuses it before it is scanned
		}
		var names []string
		var values []string
		err := members(data, func(name, value []byte) {
			names, values = append(names, string(name)), append(values, string(value))
		})
		var want map[string]json.RawMessage
		if json.Unmarshal(data, &want) != nil || want == nil {
			require.Error(t, err, "it is no object")
			return
		}
		require.NoError(t, err)
		last := map[string]string{}
		for i, name := range names {
			last[name] = values[i] // encoding/json lets the last of two win
		}
		require.Len(t, last, len(want))
		for name, value := range want {
			require.Equal(t, string(bytes.TrimSpace(value)), last[name])
		}
	})
}

// FuzzUnknownTypes looks for an event whose type, made up by somebody, is refused with anything but a reason to park it.
func FuzzUnknownTypes(f *testing.F) {
	for _, seed := range []string{TypeRunAccepted, "", ".v", "holdpoint.run.accepted.v", "holdpoint.run.accepted.v1.v2", "\u0000",
		"holdpoint.run.accepted.v9", `"}`, strings.Repeat("a.v", 100)} {
		f.Add(seed)
	}
	event, err := New(sampleMeta, samples()["run.accepted.v1"])
	require.NoError(f, err)
	good := string(event.AppendJSON(nil))
	require.Contains(f, good, `"`+TypeRunAccepted+`"`)
	f.Fuzz(func(t *testing.T, kind string) {
		name, err := json.Marshal(kind)
		require.NoError(t, err)
		_, err = Decode([]byte(strings.Replace(good, `"`+TypeRunAccepted+`"`, string(name), 1)))
		switch {
		case kind == TypeRunAccepted:
			require.NoError(t, err)
		case registry[kind] != nil:
			require.ErrorIs(t, err, ErrMalformed)
		default:
			require.Error(t, err)
			require.True(t, errors.Is(err, ErrUnknownType) || errors.Is(err, ErrUnknownVersion) || errors.Is(err, ErrMalformed), err)
		}
	})
}
