package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

const strictSchema = `{
	"type": "object", "additionalProperties": false, "required": ["amount"],
	"properties": {
		"amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 9007199254740993, "multipleOf": 0.01},
		"currency": {"enum": ["EUR", "USD"]},
		"note": {"type": "string", "maxLength": 5},
		"code": {"type": "string", "pattern": "^[A-Z]+$"},
		"mail": {"type": "string", "format": "email"},
		"fields": {"type": "object", "additionalProperties": false, "properties": {"a/b": {"type": "integer", "minimum": 2}}}
	}
}`

func parseNumber(t require.TestingT, text string) canonical.Value {
	v, err := canonical.NewNumber(text)
	require.NoError(t, err)
	return v
}

func TestValidateProposal(t *testing.T) {
	t.Parallel()

	cases := []struct{ name, change, want string }{
		{"Fits", `{"amount": 10.10, "currency": "EUR", "note": "short", "fields": {"a/b": 2.0}}`, ""},
		{"TheLargestExactly", `{"amount": 9007199254740993}`, ""},
		{"OneCentOverTheLargest", `{"amount": 9007199254740993.01}`, "/amount must be at most 9007199254740993"},
		{"AFractionOfACent", `{"amount": 0.001}`, "/amount must be a multiple of 0.01"},
		{"Nothing", `{}`, "/amount is missing"},
		{"Zero", `{"amount": 0}`, "/amount must be greater than 0"},
		{"AnotherLetterCase", `{"Amount": 5}`,
			"/Amount is not a known field; names are exact in letter case; /amount is missing"},
		{"ACaseTwinTwoLevelsDeep", `{"amount": 5, "fields": {"a/b": 2, "A/b": 3}}`, "/fields/A~1b is not a known field"},
		{"AText", `{"amount": "5"}`, "/amount must be number, found string"},
		{"Null", `{"amount": null}`, "/amount must be number, found null"},
		{"OutsideTheEnum", `{"amount": 5, "currency": "eur"}`, "/currency is not allowed: value must be one of 'EUR', 'USD'"},
		{"TooLong", `{"amount": 5, "note": "longer"}`, "/note is not allowed: maxLength: got 6, want 5"},
		{"AgainstThePattern", `{"amount": 5, "code": "secret"}`, "/code must match ^[A-Z]+$"},
		{"AgainstTheFormat", `{"amount": 5, "mail": "secret"}`, "/mail must be a valid email"},
		{"TooSmallInside", `{"amount": 5, "fields": {"a/b": 1}}`, "/fields/a~1b must be at least 2"},
		{"NoObject", `[]`, "the change must be object, found array"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.action.Schema = []byte(strictSchema)
			err := w.engine().ValidateProposal(w.action.Type, parse(t, tc.change))
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			var invalid *ValidationError
			require.ErrorAs(t, err, &invalid)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "secret", "values stay out of messages")
		})
	}

	t.Run("AnUnregisteredTypeIsToldApart", func(t *testing.T) {
		t.Parallel()
		err := newWorld(t).engine().ValidateProposal("crm.contact.delete", parse(t, `{}`))
		require.Equal(t, &ValidationError{Unregistered: true}, err)
		require.EqualError(t, err, "the action type is not registered")
	})

	t.Run("ManyViolationsAreBounded", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.action.Schema = []byte(strictSchema)
		var fields []string
		for c := 'A'; c <= 'Z'; c++ {
			fields = append(fields, `"`+string(c)+`": 1`)
		}
		err := w.engine().ValidateProposal(w.action.Type, parse(t, `{"amount": 1, `+strings.Join(fields, ",")+`}`))
		var invalid *ValidationError
		require.ErrorAs(t, err, &invalid)
		require.Len(t, invalid.Errors, 20)
	})
}
