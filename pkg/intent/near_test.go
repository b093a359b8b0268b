package intent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
)

// near is the digest by which near duplicates are found, of a proposal with this target and change.
func near(t *testing.T, action *config.Action, record, change string) string {
	t.Helper()
	proposal, err := canonical.Parse([]byte(`{"action_type":"crm.note","target":{"system":"crm","record_id":"` + record +
		`"},"proposed_change":` + change + `,"workflow_version":"w@1"}`))
	require.NoError(t, err)
	built, err := intent.Build(proposal, intent.Origin{TenantID: "demo", Key: t.Name(), Source: "s", Revision: 1, Registered: registered(action, nil)})
	require.NoError(t, err)
	return string(built.NearHash)
}

func TestNearHash(t *testing.T) { // K13
	t.Parallel()
	action := &config.Action{Type: "crm.note", NearDuplicate: &config.NearDuplicate{Within: time.Hour, Ignore: []string{"/reference"}}}
	const change = `{"text":"Call the  Customer","amount":10.50,"reference":"a"}`
	same := near(t, action, "c-1", change)
	require.Len(t, same, 32)
	for name, other := range map[string]string{
		"OtherSpacingAndCase":    `{"text":" call THE customer ","amount":10.5,"reference":"a"}`,
		"OtherFormsOfLetters":    `{"text":"Ｃall the Customer","amount":10.5,"reference":"a"}`,
		"WhatIsIgnoredIsAnother": `{"text":"Call the Customer","amount":10.5,"reference":"b"}`,
		"WhatIsIgnoredIsMissing": `{"text":"Call the Customer","amount":10.5}`,
	} {
		require.Equal(t, same, near(t, action, "c-1", other), name)
	}
	for name, other := range map[string]string{
		"OtherWords":        `{"text":"Call the Customers","amount":10.5,"reference":"a"}`,
		"AnotherAmount":     `{"text":"Call the Customer","amount":10.51,"reference":"a"}`,
		"ANumberAsText":     `{"text":"Call the Customer","amount":"10.5","reference":"a"}`,
		"AnotherMember":     `{"text":"Call the Customer","amount":10.5,"reference":"a","b":1}`,
		"ALetterWithAccent": `{"text":"Cáll the Customer","amount":10.5,"reference":"a"}`,
	} {
		require.NotEqual(t, same, near(t, action, "c-1", other), name)
	}
	require.NotEqual(t, same, near(t, action, "c-2", change), "another target")
	require.Empty(t, near(t, &config.Action{Type: "crm.note"}, "c-1", change), "nobody asked for it")
	require.Empty(t, near(t, nil, "c-1", change))
}
