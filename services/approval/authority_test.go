package approval

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

const (
	testIssuer  = "https://id.example"
	rolesMaxAge = 10 * time.Minute
)

// office is a tenant with people, and a refund that rita asked for through the help desk.
func office(t *testing.T) (*tenant, *ledger.Card, func(subject string, groups ...string) *identity) {
	t.Helper()
	declared := &config.Tenant{
		ID: "demo",
		People: []*config.Person{
			{ID: "rita", Subject: "sub-rita", Email: "rita@example.test", Aliases: []string{"r.requester", "Rita@HelpDesk.example"}},
			{ID: "nora", Subject: "sub-nora", Email: "nora@example.test"},
			{ID: "gone", Subject: "sub-gone", Email: "gone@example.test", Disabled: true},
			{ID: "bot-owner", Subject: "sub-owner", Email: "owner@example.test"},
		},
		Roles: []*config.Role{
			{Name: "support-lead", Claims: map[string][]string{"groups": {"support-leads"}}},
			{Name: "operator", Claims: map[string][]string{"groups": {"operators"}}},
			{Name: "doctor", Claims: map[string][]string{"licences": {"md"}}, Qualifications: []string{"medical"}},
		},
		Actions: []*config.Action{{Type: "payment.refund", Review: config.ReviewRule{Quorum: 1, TypedReason: true, RecentSignIn: 15 * time.Minute}}},
		Sources: []*config.Source{{ID: "support-refunds", Requester: "/requested_by"}, {ID: "machine"}},
		APIKeys: []config.APIKey{{Name: "desk", Owner: "bot-owner"}},
	}
	ten, err := newTenant(declared, testIssuer)
	require.NoError(t, err)
	now := time.Now()
	card := &ledger.Card{ApprovalSummary: ledger.ApprovalSummary{TenantID: "demo", ActionType: "payment.refund", Source: "support-refunds",
		RequestedBy: "rita@example.test", Audience: []string{"support-lead"}, Now: now}, SentBy: "desk"}
	return ten, card, func(subject string, groups ...string) *identity {
		list := make([]any, len(groups))
		for i, g := range groups {
			list[i] = g
		}
		return &identity{Issuer: testIssuer, Subject: subject, Claims: map[string]any{"groups": list}, SignedInAt: now.Add(-time.Minute),
			ClaimsAt: now.Add(-time.Minute)}
	}
}

// TestMayDecide is A4, A5 and A6, at the moment of the decision.
func TestMayDecide(t *testing.T) {
	t.Parallel()
	approve := want{Decision: ledger.Approve, Reason: "because"}
	reject := want{Decision: ledger.Reject, Reason: "because"}
	licensed := func(as func(string, ...string) *identity) *identity {
		who := as("sub-nora", "support-leads")
		who.Claims["licences"] = "md"
		return who
	}
	for name, c := range map[string]struct {
		who    func(as func(string, ...string) *identity) *identity
		want   want
		change func(*tenant, *ledger.Card)
		code   string // "" lets the decision through
	}{
		"ALeadApproves":        {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "support-leads") }, want: approve},
		"AStrangerWithTheRole": {who: func(as func(string, ...string) *identity) *identity { return as("sub-new", "support-leads") }, want: approve},
		"WithoutTheRole": {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "sales") }, want: approve,
			code: codeWrongRole},
		"AnOperatorIsNoLead": {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "operators") }, want: approve,
			code: codeWrongRole},
		"DisabledInTheConfiguration": {who: func(as func(string, ...string) *identity) *identity { return as("sub-gone", "support-leads") },
			want: approve, code: codeDisabled},
		"WithClaimsThatAreTooOld": {who: func(as func(string, ...string) *identity) *identity {
			who := as("sub-nora", "support-leads")
			who.ClaimsAt = who.ClaimsAt.Add(-rolesMaxAge)
			return who
		}, want: approve, code: codeSignInAgain},
		"TheRequesterApproves": {who: func(as func(string, ...string) *identity) *identity { return as("sub-rita", "support-leads") },
			want: approve, code: codeOwnRequest},
		"WhoCorrectedItApproves": {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "support-leads") },
			want: approve, change: func(_ *tenant, c *ledger.Card) { c.Corrects = &ledger.CorrectionView{By: "Nora@example.test"} },
			code: codeOwnRequest},
		"TheRequesterRejects": {who: func(as func(string, ...string) *identity) *identity { return as("sub-rita", "support-leads") }, want: reject},
		"TheRequesterUnderAnAlias": {who: func(as func(string, ...string) *identity) *identity { return as("sub-rita", "support-leads") },
			want: approve, change: func(_ *tenant, c *ledger.Card) { c.RequestedBy = " rita@helpdesk.EXAMPLE " }, code: codeOwnRequest},
		"WhoAnswersForTheProgramThatAsked": {who: func(as func(string, ...string) *identity) *identity { return as("sub-owner", "support-leads") },
			want: approve, code: codeOwnRequest},
		"AnUnknownRequesterWithTheSameMail": {who: func(as func(string, ...string) *identity) *identity {
			who := as("sub-new", "support-leads")
			who.Email = "new@example.test"
			return who
		}, want: approve, change: func(_ *tenant, c *ledger.Card) { c.RequestedBy = "NEW@example.test" }, code: codeOwnRequest},
		"SomebodyWithTheMailOfAConfiguredPerson": {who: func(as func(string, ...string) *identity) *identity {
			who := as("sub-impostor", "sales")
			who.Email = "nora@example.test"
			return who
		}, want: approve, code: codeWrongRole},
		"ThroughALinkThatWasSomebodyElses": {who: func(as func(string, ...string) *identity) *identity { return as("sub-new", "support-leads") },
			want: want{Decision: ledger.Approve, Reason: "because", Recipient: "mail nora@example.test"}, code: codeNotYourLink},
		"ThroughTheirOwnLink": {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "support-leads") },
			want: want{Decision: ledger.Approve, Reason: "because", Recipient: "mail Nora@example.test"}},
		"ThroughATeamsMailbox": {who: func(as func(string, ...string) *identity) *identity { return as("sub-new", "support-leads") },
			want: want{Decision: ledger.Approve, Reason: "because", Recipient: "mail leads@example.test"}},
		"LongAfterTheSignIn": {who: func(as func(string, ...string) *identity) *identity {
			who := as("sub-nora", "support-leads")
			who.SignedInAt = who.SignedInAt.Add(-15 * time.Minute)
			return who
		}, want: approve, code: codeStepUp},
		"WithoutATimeOfSignIn": {who: func(as func(string, ...string) *identity) *identity {
			who := as("sub-nora", "support-leads")
			who.SignedInAt = time.Time{}
			return who
		}, want: approve, code: codeStepUp},
		"WithoutAReason": {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "support-leads") },
			want: want{Decision: ledger.Approve, Reason: " \n"}, code: codeReason},
		"RejectingWithoutAReasonWhereNoneIsTyped": {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "support-leads") },
			want: want{Decision: ledger.Reject}, change: func(t *tenant, _ *ledger.Card) { t.actions["payment.refund"].Review.TypedReason = false },
			code: codeReason},
		"ApprovingWithoutAReasonWhereNoneIsTyped": {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "support-leads") },
			want: want{Decision: ledger.Approve}, change: func(t *tenant, _ *ledger.Card) { t.actions["payment.refund"].Review.TypedReason = false }},
		"WithAnEndlessReason": {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "support-leads") },
			want: want{Decision: ledger.Approve, Reason: strings.Repeat("ä", longestReason+1)}, code: codeReasonLong},
		"WithoutTheQualification": {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "support-leads") },
			want: approve, change: func(t *tenant, _ *ledger.Card) { t.actions["payment.refund"].Profession = "medical" }, code: codeUnqualified},
		"RejectingWithoutTheQualification": {who: func(as func(string, ...string) *identity) *identity {
			return as("sub-nora", "support-leads")
		}, want: reject, change: func(t *tenant, _ *ledger.Card) { t.actions["payment.refund"].Profession = "medical" }, code: codeUnqualified},
		"WithTheQualificationOfARole": {who: licensed, want: approve,
			change: func(t *tenant, _ *ledger.Card) { t.actions["payment.refund"].Profession = "medical" }},
		"WithTheQualificationOfARoleOfOtherPeople": {who: licensed, want: approve, change: func(t *tenant, _ *ledger.Card) {
			t.actions["payment.refund"].Profession = "medical"
			t.Roles[2].Members = []string{"rita"}
		}, code: codeUnqualified},
		"WithTheirOwnQualification": {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "support-leads") },
			want: approve, change: func(t *tenant, _ *ledger.Card) {
				t.actions["payment.refund"].Profession = "child_safety"
				t.People[1].Qualifications = []string{"legal", "child_safety"}
			}},
		"WithAnotherQualification": {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "support-leads") },
			want: approve, change: func(t *tenant, _ *ledger.Card) {
				t.actions["payment.refund"].Profession = "medical"
				t.People[1].Qualifications = []string{"legal", "structural"}
			}, code: codeUnqualified},
		"ARoleNamedLikeTheProfessionIsNoQualification": {who: licensed, want: approve, change: func(t *tenant, _ *ledger.Card) {
			t.actions["payment.refund"].Profession = "legal"
			t.Roles[2].Name = "legal"
		}, code: codeUnqualified},
		"OneOfTheMembersOfTheRole": {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "support-leads") },
			want: approve, change: func(t *tenant, _ *ledger.Card) { t.Roles[0].Members = []string{"rita", "nora"} }},
		"AMemberWithoutTheClaim": {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "sales") },
			want: approve, change: func(t *tenant, _ *ledger.Card) { t.Roles[0].Members = []string{"nora"} }, code: codeWrongRole},
		"NoMemberOfTheRole": {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "support-leads") },
			want: approve, change: func(t *tenant, _ *ledger.Card) { t.Roles[0].Members = []string{"rita"} }, code: codeWrongRole},
		"AStrangerToARoleWithMembers": {who: func(as func(string, ...string) *identity) *identity { return as("sub-new", "support-leads") },
			want: approve, change: func(t *tenant, _ *ledger.Card) { t.Roles[0].Members = []string{"nora"} }, code: codeWrongRole},
		"SomethingThatIsNoDecision": {who: func(as func(string, ...string) *identity) *identity { return as("sub-nora", "support-leads") },
			want: want{Decision: "postpone"}, code: codeBadDecision},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ten, card, as := office(t)
			if c.change != nil {
				c.change(ten, card)
			}
			no := ten.mayDecide(c.who(as), card, c.want, rolesMaxAge)
			if c.code == "" {
				require.Nil(t, no)
				return
			}
			require.NotNil(t, no)
			require.Equal(t, c.code, no.Code, no.Detail)
		})
	}
}

// TestAuthority: the roles and qualifications that a decision relies on are stored with it (A4, P5).
func TestAuthority(t *testing.T) {
	t.Parallel()
	ten, _, as := office(t)
	who := as("sub-nora", "support-leads", "operators")
	who.Claims["licences"] = "md"
	ten.Roles[1].Members = []string{"rita"}
	ten.People[1].Qualifications = []string{"legal"}
	var stored struct{ Roles, Qualifications []string }
	require.NoError(t, json.Unmarshal(ten.authority(who, capacity{}), &stored))
	require.Equal(t, []string{"doctor", "support-lead"}, stored.Roles, "without the role that has other members")
	require.Equal(t, []string{"legal", "medical"}, stored.Qualifications)
}

// TestTwoPeople: where it is not known who asked, two different people decide (APR-10).
func TestTwoPeople(t *testing.T) {
	t.Parallel()
	ten, card, _ := office(t)
	require.Equal(t, 1, ten.termsOf(card).Quorum)
	card.RequestedBy = "somebody@elsewhere.example"
	require.Equal(t, 2, ten.termsOf(card).Quorum)
	require.NotEmpty(t, ten.termsOf(card).TwoPeople)
	card.RequestedBy = ""
	require.Equal(t, 2, ten.termsOf(card).Quorum)
	card.Source = "machine"
	require.Equal(t, 1, ten.termsOf(card).Quorum, "a source that no person stands behind")
	ten.actions["payment.refund"].Review.Quorum = 3
	require.Equal(t, 3, ten.termsOf(card).Quorum)
}

// TestHuman is A15: what a program got for itself, or acts with for somebody, decides nothing.
func TestHuman(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		subject string
		claims  map[string]any
		human   bool
	}{
		"APerson":                   {"nora", map[string]any{"client_id": "holdpoint-cli"}, true},
		"AClientsOwnToken":          {"agent", map[string]any{"client_id": "agent"}, false},
		"AClientsOwnTokenByAZP":     {"agent", map[string]any{"azp": "agent"}, false},
		"ADelegatedToken":           {"nora", map[string]any{"client_id": "holdpoint-cli", "act": map[string]any{"sub": "agent"}}, false},
		"ANamedGrant":               {"nora", map[string]any{"gty": "client-credentials"}, false},
		"AnAppOfEntra":              {"3f0c", map[string]any{"azp": "holdpoint-cli", "idtyp": "app"}, false},
		"AServiceAccountOfKeycloak": {"3f0c", map[string]any{"azp": "holdpoint-cli", "preferred_username": "service-account-holdpoint-cli"}, false},
		"NobodyAtAll":               {"", map[string]any{}, false},
		"TheClientWePresentAsAUser": {"holdpoint-cli", map[string]any{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := (&identity{Issuer: testIssuer, Subject: c.subject, Claims: c.claims}).human("holdpoint-cli")
			if c.human {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, errNotAPerson)
			}
		})
	}
}

// TestSettings: links hold tokens, so they are https but on loopback (A2).
func TestSettings(t *testing.T) {
	t.Parallel()
	good := Settings{Issuer: testIssuer, PublicURL: "https://approvals.example", RolesMaxAge: 1, SessionLifetime: 1, SessionIdle: 1}
	require.NoError(t, good.validate())
	for _, address := range []string{"http://127.0.0.1:7075", "http://localhost:7075", "http://[::1]:7075"} {
		good.PublicURL = address
		require.NoError(t, good.validate(), address)
	}
	for _, address := range []string{"http://approvals.example", "http://10.0.0.1", "approvals.example", "", "ftp://x",
		"https://approvals.example/holdpoint", "https://approvals.example?x=1", "https://me@approvals.example"} {
		bad := good
		bad.PublicURL = address
		require.ErrorContains(t, bad.validate(), "PUBLIC_URL", address)
	}
}
