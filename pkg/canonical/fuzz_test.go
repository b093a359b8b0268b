package canonical

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// hostile are documents that other parsers read in different ways, or at great cost.
var hostile = []string{
	`{"b":1,"a":2}`, "{ \"a\" : 2,\n\"b\":1 }", `{"n":10E-1}`, `{"n":1E+2}`, `{"n":-0.0}`, `{"n":0.10}`, `{"n":9007199254740993}`,
	`{"n":0.1000000000000000055511151231257827}`, `{"s":"e\u0301"}`, `{"s":"\u003c\u0026\u003e"}`, "{\"s\":\"a\u00a0b\"}",
	`{"\ud83d\ude00":2,"\ue000":1}`, `{"a":1,"a":1}`, `{"a":1e1000000000}`, `{"a":-1e-1000000000}`, `{"a":1e131071}`, `{"s":"\ud800"}`,
	"{\"s\":\"\xff\"}", `{"s":"\u0000"}`, `{"s":"\\u0000"}`, `{"a":1} {}`, "\uFEFF{}", ``, `NaN`, `01`, `[1,]`, `{"a":1,}`, `-`, `"\`,
	`{"amount":5,"AMOUNT":5000}`, `{"":{"":[{}]}}`, `{"~":1,"/":2,"a/b":{"c~d":[0]}}`, strings.Repeat("[", MaxDepth+1),
	`{"a":` + strings.Repeat("7", 2000) + `}`, `"\ud83d"`, `"\udfff\ud83d"`, "\"\x7f\"", "[\"\u2028\"]", `1.`, `.1`, `1e`, `+1`, "\v1",
}

// FuzzParse looks for a document that changes its value, or its hash, when its canonical form is read again, and for a refusal
// that does not say where.
func FuzzParse(f *testing.F) {
	for _, seed := range hostile {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		v, err := Parse(document)
		if err != nil {
			require.IsType(t, new(Error), err)
			at := err.(*Error).Offset
			require.True(t, 0 <= at && at <= len(document), "%d", at)
			require.True(t, utf8.ValidString(err.Error()), "%q", err)
			return
		}
		form := v.AppendCanonical(nil)
		require.True(t, utf8.Valid(form))
		require.NotContains(t, string(form), "\x00")
		again, err := Parse(form)
		require.NoError(t, err)
		require.True(t, v.Equal(again))
		require.Equal(t, Hash(v), Hash(again))
		require.Equal(t, string(form), string(again.AppendCanonical(nil)))
	})
}

// FuzzPointer looks for a pointer that finds what is not there, or does not find what is (RFC 6901).
func FuzzPointer(f *testing.F) {
	for _, seed := range []string{"", "/", "/a", "/a/0", "/a/-", "/a/00", "/a/-1", "/a/18446744073709551616", "/~", "/~2", "/~01", "a", "//",
		"/a~1b/c~0d/0", "/\xff", "/\x00", "/é"} {
		for _, document := range hostile[:12] {
			f.Add(document, seed)
		}
		f.Add(`{"":{"":[{}]},"a":[1,[2]],"a/b":{"c~d":[0]},"~1":5}`, seed)
	}
	f.Fuzz(func(t *testing.T, document, pointer string) {
		v, err := Parse([]byte(document))
		if err != nil {
			return
		}
		found, ok := v.Pointer(pointer)
		if !ok {
			require.True(t, found.IsNull())
			require.NotEmpty(t, pointer, "the whole document is always there")
			return
		}
		require.Contains(t, v.String(), found.String())
		if pointer == "" {
			require.True(t, v.Equal(found))
			return
		}
		require.Equal(t, byte('/'), pointer[0])
		cut := strings.LastIndexByte(pointer, '/')
		parent, ok := v.Pointer(pointer[:cut])
		require.True(t, ok)
		same, ok := parent.Pointer(pointer[cut:])
		require.True(t, ok && same.Equal(found))
	})
}
