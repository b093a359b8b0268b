package approval

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// TestOnePersonWithTwoAccounts is A5: the configuration knows nora and rita by one subject each, and a second account of theirs at
// the same provider has another subject and the same address.
func TestOnePersonWithTwoAccounts(t *testing.T) {
	t.Parallel()
	ten, card, as := office(t)
	approve := want{Decision: ledger.Approve, Reason: "because"}
	second := func(email, username string) *identity {
		who := as("another-subject", "support-leads")
		who.Email, who.Claims["preferred_username"] = email, username
		return who
	}
	for name, who := range map[string]*identity{
		"WhoAsked":          second("RITA@example.test", ""),
		"WhoAskedByAnAlias": second("", "r.requester"),
		"ASecondVote":       second("nora@example.test", ""),
		"WhoIsDisabled":     second("gone@example.test", ""),
		"WhoAnswers":        second("owner@example.test", ""),
	} {
		no := ten.mayDecide(who, card, approve, rolesMaxAge)
		require.NotNil(t, no, name)
		require.Equal(t, codeSecond, no.Code, name)
	}
	require.Nil(t, ten.mayDecide(second("new@example.test", "new"), card, approve, rolesMaxAge), "a stranger is one person")

	nora := as("sub-nora", "support-leads")
	nora.Email = "r.requester" // her account, with what rita is called
	no := ten.mayDecide(nora, card, approve, rolesMaxAge)
	require.NotNil(t, no)
	require.Equal(t, codeOwnRequest, no.Code)
}

// TestWhatTheConfigurationHasNoMore: without the action nobody can say what quorum, sign-in or profession approving it takes.
func TestWhatTheConfigurationHasNoMore(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(*tenant){
		"TheAction": func(t *tenant) { delete(t.actions, "payment.refund") },
		"TheSource": func(t *tenant) { delete(t.sources, "support-refunds") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ten, card, as := office(t)
			remove(ten)
			no := ten.mayDecide(as("sub-nora", "support-leads"), card, want{Decision: ledger.Approve, Reason: "because"}, rolesMaxAge)
			require.NotNil(t, no)
			require.Equal(t, codeRemoved, no.Code)
			require.Nil(t, ten.mayDecide(as("sub-nora", "support-leads"), card, want{Decision: ledger.Reject, Reason: "because"}, rolesMaxAge))
		})
	}
}

// TestChangeableClaimsGiveNothing is APR-09: whoever takes the name that an event gave may neither see the request nor end it.
func TestChangeableClaimsGiveNothing(t *testing.T) {
	t.Parallel()
	ten, card, as := office(t)
	card.RequestedBy = "Temp Worker"
	impostor := as("sub-impostor")
	impostor.Name, impostor.Email, impostor.Claims["preferred_username"] = "Temp Worker", "Temp Worker", "Temp Worker"
	require.True(t, ten.asked(impostor, card), "it takes the right to approve away")
	require.False(t, ten.visible(impostor, &card.ApprovalSummary))
	require.False(t, ten.mayWithdraw(impostor, card))

	card.RequestedBy = "r.requester"
	require.True(t, ten.mayWithdraw(as("sub-rita"), card))
	require.True(t, ten.visible(as("sub-rita"), &card.ApprovalSummary))
	card.RequestedBy = "sub-temp"
	require.True(t, ten.mayWithdraw(as("sub-temp"), card), "the subject is nobody else's")
	require.True(t, ten.mayWithdraw(as("sub-owner"), card))
	require.False(t, ten.mayWithdraw(as("sub-gone", "operators"), card))
	require.True(t, ten.mayWithdraw(as("sub-new", "operators"), card))
}

func TestAReasonCanBeSeen(t *testing.T) {
	t.Parallel()
	ten, card, as := office(t)
	for _, unseen := range []string{"\u200b\u2060", "\u3164", "\x00", "\u2800 \ufe0f", strings.Repeat("\u00a0", 9)} {
		no := ten.mayDecide(as("sub-nora", "support-leads"), card, want{Decision: ledger.Approve, Reason: unseen}, rolesMaxAge)
		require.NotNil(t, no, "%q", unseen)
		require.Equal(t, codeReason, no.Code, "%q", unseen)
	}
	require.Nil(t, ten.mayDecide(as("sub-nora", "support-leads"), card, want{Decision: ledger.Approve, Reason: "好"}, rolesMaxAge))
}

// TestATimeOfSignInThatCannotBe is A6: a provider whose clock is ahead, or that counts in milliseconds.
func TestATimeOfSignInThatCannotBe(t *testing.T) {
	t.Parallel()
	at := func(authTime float64) *identity {
		return person(testIssuer, "sub-nora", map[string]any{"auth_time": authTime}, "web")
	}
	now := float64(time.Now().Unix())
	require.WithinDuration(t, time.Now().Add(-time.Hour), at(now-3600).SignedInAt, 2*time.Second)
	ahead := at(now + 60)
	require.Equal(t, ahead.ClaimsAt, ahead.SignedInAt)
	for _, never := range []float64{now + 3600, now * 1000, now * 1e9, 1e300} {
		ten, card, as := office(t)
		who := as("sub-nora", "support-leads")
		who.SignedInAt = at(never).SignedInAt
		no := ten.mayDecide(who, card, want{Decision: ledger.Approve, Reason: "because"}, rolesMaxAge)
		require.NotNil(t, no, "%v", never)
		require.Equal(t, codeStepUp, no.Code, "%v", never)
	}
}

func TestTwoPeopleWithOneAccountDoNotStart(t *testing.T) {
	t.Parallel()
	_, err := newTenant(&config.Tenant{ID: "demo", People: []*config.Person{
		{ID: "nora", Subject: "sub-nora"},
		{ID: "gone", Subject: "sub-nora", Issuer: testIssuer, Disabled: true},
	}}, testIssuer)
	require.ErrorContains(t, err, "people nora and gone of tenant demo are one account")
	_, err = newTenant(&config.Tenant{ID: "demo", People: []*config.Person{
		{ID: "nora", Subject: "sub-nora"}, {ID: "far", Subject: "sub-nora", Issuer: "https://elsewhere.example"},
	}}, testIssuer)
	require.NoError(t, err)
}

// TestAMessageHasOneLink: what an event wrote does not become one, in a message that people trust.
func TestAMessageHasOneLink(t *testing.T) {
	t.Parallel()
	for written, told := range map[string]string{
		"ticket-4711":                "ticket-4711",
		"v1.2":                       "v1.2",
		"https://evil.example/l/abc": "https⟦://⟧evil⟦.⟧example/l/abc",
		"see evil.example":           "see evil⟦.⟧example",
	} {
		require.Contains(t, text(&message{Asked: ledger.Asked{CorrelationID: written}, Link: "https://approvals.example/l/t"}),
			"Reference   "+told+"\n", written)
	}
}
