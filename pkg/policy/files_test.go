package policy

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

const demo = "tenants/demo/"

// exampleWith is the example's tenant with other contents of some of its files.
func exampleWith(t *testing.T, files map[string]string) *config.Tenant {
	t.Helper()
	all := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(exampleFiles, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(exampleFiles, name)
		all[name] = &fstest.MapFile{Data: data}
		return err
	}))
	for name, text := range files {
		all[demo+name] = &fstest.MapFile{Data: []byte(text)}
	}
	loaded, err := config.LoadEnv(all, func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	return loaded.Tenants[0]
}

// What is wrong with a condition is reported where it stands in the file, whichever way the condition is written.
func TestComplaintsNameTheirPlaceInTheFile(t *testing.T) {
	t.Parallel()
	const file = `rules:
  - id: block
    action: payment.refund
    when: >-
      proposed_change.amount > 5
      && chnge.amount > 1
      && decimal(proposed_change.amount) > decimal(thresholds.limt)
    route: reject
    reason: Why.
  - id: quoted
    action: payment.refund
    when: "proposed_change.note == \"x\" && proposed_change.amount > \"9\" && int(proposed_change.amount) == 1"
    route: reject
    reason: Why.
  - id: literal
    action: crm.contact.update
    when: |
      proposed_change.fields.all(name,
        name != "email")
      && uncertainty == "low"
      && thresholds.most > 0.5
    route: auto
    reason: Why.
  - id: unfinished
    action: payment.refund
    when: 'proposed_change.amount >'
    route: reject
    reason: Why.
  - id: typed
    action: payment.refund
    when: 'proposed_change.amount > thresholds.limt && decimal("1,5") > 1'
    route: reject
    reason: Why.
  - id: unordered
    action: payment.refund
    when: '{"a": 1, "b": 2}.map(k, k)[0] == "a"'
    route: auto
    reason: Why.
  - id: lookup
    action: payment.refund
    when: '{"EUR": 1, "USD": 2}[proposed_change.currency] == 1 && [1, 2].size() == 2'
    route: auto
    reason: Why.
`
	tenant := exampleWith(t, map[string]string{"policy.yaml": file})
	_, err := New(tenant)
	lines := strings.Split(file, "\n")
	for _, tc := range []struct {
		line     int
		at, says string
	}{
		{6, "chnge", "block: when reads chnge, which no rule can see, allowed: "},
		{12, "> ", "quoted: when applies > to (any, string), allowed: "},
		{12, "int(", "quoted: when calls int(), which is no function of rules, allowed: "},
		{21, "> 0.5", "literal: when applies > to (any, float), allowed: "},
		{26, "'\n", "unfinished: when is not a CEL expression: it ends too early"},
		{31, "thresholds.limt", "typed: when reads thresholds.limt, which action payment.refund does not declare, allowed: " +
			"needs_lead, refused"},
		{36, "{", "unordered: when holds a map of several entries and loops; "},
		{31, "decimal(", "typed: when cannot be evaluated: decimal() was given a text that is not a plain decimal number"},
	} {
		column := 1 + strings.Index(lines[tc.line-1]+"\n", tc.at)
		require.ErrorContains(t, err, fmt.Sprintf("%spolicy.yaml:%d:%d: rule %s", demo, tc.line, column, tc.says))
	}

	require.NotContains(t, err.Error(), "rule lookup", "a map that nothing loops over has one answer")

	t.Run("WhatOnlyAnAutoRuleCannotRead", func(t *testing.T) {
		t.Parallel()
		_, from, _ := strings.Cut(file, "  - id: literal")
		text, _, _ := strings.Cut("rules:\n  - id: literal"+from, "  - id: unfinished")
		text = strings.ReplaceAll(strings.ReplaceAll(text, "most", "max_fields"), "0.5", "5")
		_, err := New(exampleWith(t, map[string]string{"policy.yaml": text}))
		require.EqualError(t, err,
			demo+"policy.yaml:7:10: rule literal: when reads uncertainty, which the model states itself "+
				"and which can only make a route stricter (M6)")
	})
}
