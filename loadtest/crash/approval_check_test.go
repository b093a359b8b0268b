package crash

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// newDecided is a refund that was approved and one that was rejected, each told to one person in time.
func newDecided() *plant {
	p := &plant{}
	for n, state := range []string{ledger.ApprovalApproved, ledger.ApprovalRejected} {
		key := []string{"key-1", "key-2"}[n]
		run, approval := ledger.RunID(tenant, key), uuid.NewSHA1(uuid.Nil, []byte(key))
		e := expected{name: "case of " + key, key: key, run: run, asks: true}
		r := runFact{RunID: run, Key: key, State: ledger.RunCompleted, Intents: 1, Claims: 1, Decisions: 1, Endings: 1,
			EndingAudits: 1}
		a := approvalFact{RunID: run, ApprovalID: approval, State: state, Announced: true, Votes: 1, Voters: 1,
			FinalAudits: 1, FinalEvents: 1}
		if state == ledger.ApprovalApproved {
			at, operation := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), ledger.OperationID(run, 1, 1)
			r.Authorizations, r.Effects, a.Authorizations, a.Approving = 1, 1, 1, 1
			p.effects = append(p.effects, effectFact{RunID: run, OperationID: operation, State: ledger.EffectCompleted,
				Authorized: true, FirstAttempt: at})
			p.writes = append(p.writes, sandbox.Write{Reference: operation, ObjectID: "re_1", Time: at.Add(time.Second),
				Refund: &sandbox.Refund{PaymentID: "p-" + key}})
		} else {
			e.ends, r.State, a.Rejecting = turnedDown, ledger.RunFailedTerminal, 1
		}
		p.expected, p.runs, p.approvals = append(p.expected, e), append(p.runs, r), append(p.approvals, a)
		m := messageFact{Token: strings.Repeat(string(rune('a'+n)), 43), Address: "support-mail nora@example.test"}
		p.messages = append(p.messages, m)
		p.tokens = append(p.tokens, tokenFact{Hash: []byte(m.hash()), ApprovalID: approval, Address: m.Address})
		p.notices = append(p.notices,
			noticeFact{RunID: run, ApprovalID: approval, Address: m.Address, State: "sent", Timely: true})
	}
	return p
}

func TestCheckOfDecisions(t *testing.T) {
	t.Parallel()

	t.Run("GoodSuiteHasNoFindings", func(t *testing.T) {
		t.Parallel()
		p := newDecided()
		require.Equal(t, findings{}, check(p.expected, p.facts))
		require.True(t, settled(p.expected, p.facts))
	})

	t.Run("MessageThatCameTwiceWithLinksOfItsOwnIsFine", func(t *testing.T) {
		t.Parallel()
		p := newDecided()
		again := messageFact{Token: strings.Repeat("c", 43), Address: p.messages[0].Address}
		p.messages = append(p.messages, again)
		p.tokens = append(p.tokens,
			tokenFact{Hash: []byte(again.hash()), ApprovalID: p.tokens[0].ApprovalID, Address: again.Address})
		require.Equal(t, findings{}, check(p.expected, p.facts))
	})

	t.Run("MessageThatCameTooLateToBeSentIsFine", func(t *testing.T) {
		t.Parallel()
		p := newDecided()
		p.notices[0].Timely, p.notices[1].Timely, p.notices[1].State = false, false, "moot"
		p.messages = nil
		require.Equal(t, findings{}, check(p.expected, p.facts))
	})

	for name, c := range map[string]struct {
		plant func(*plant)
		tells string
	}{
		"SecondRequestForOneEvent": {func(p *plant) { p.approvals = append(p.approvals, p.approvals[0]) }, "2 requests were"},
		"EventThatNobodyWasAskedAbout": {func(p *plant) { p.approvals, p.notices = p.approvals[1:], p.notices[1:] },
			"0 requests were"},
		"OtherDecisionThanTheCaseIsFor": {func(p *plant) { p.expected[0].ends = turnedDown }, "is approved, not rejected"},
		"OpenRequest":                   {func(p *plant) { p.approvals[0].State = ledger.ApprovalPending }, "is pending"},
		"SecondFinalDecision":           {func(p *plant) { p.approvals[0].FinalAudits = 2 }, "2 audit rows of"},
		"DecisionWithoutAudit":          {func(p *plant) { p.approvals[1].FinalAudits = 0 }, "0 audit rows of"},
		"DecisionThatWasToldTwice": {func(p *plant) { p.approvals[1].FinalEvents = 2 },
			"2 events that tell of its final decision, not 1"},
		"ApprovalThatAuthorizedNothing": {func(p *plant) { p.approvals[0].Authorizations = 0 }, "0 authorizations, not 1"},
		"RejectionThatAuthorized":       {func(p *plant) { p.approvals[1].Authorizations = 1 }, "1 authorizations, not 0"},
		"SecondVoteOfOnePerson":         {func(p *plant) { p.approvals[0].Votes = 2 }, "1 people cast 2 votes"},
		"ApprovalWithoutAVote":          {func(p *plant) { p.approvals[0].Approving = 0 }, "approved by 0 votes"},
		"ApprovalOfWhatWasRejected": {func(p *plant) { p.approvals[0].Rejecting = 1 },
			"is approved by 1 votes for it and 1 against"},
		"RejectionByNobody":   {func(p *plant) { p.approvals[1].Rejecting = 0 }, "is rejected by 0 votes"},
		"LinkThatStillWorks":  {func(p *plant) { p.approvals[1].LiveTokens = 1 }, "1 links could still be used"},
		"RequestNeverTold":    {func(p *plant) { p.approvals[0].Announced = false }, "nobody was ever to be told"},
		"MessageForgotten":    {func(p *plant) { p.notices[0].State = "waiting" }, "nora@example.test is waiting"},
		"MessageGivenUp":      {func(p *plant) { p.notices[0].State = "failed" }, "nora@example.test is failed"},
		"MessageThatWasLost":  {func(p *plant) { p.messages = p.messages[1:] }, "counts as sent, and never arrived"},
		"LinkOfNoMint":        {func(p *plant) { p.tokens = p.tokens[1:] }, "has a link that was not minted for it"},
		"MessageWithoutALink": {func(p *plant) { p.messages[0].Token = "" }, "has a link that was not minted for it"},
		"LinkForSomebodyElse": {func(p *plant) { p.messages[0].Address = "support-mail sam@example.test" },
			"sam@example.test has a link that was not minted for it"},
		"LinkThatWasSentTwice": {func(p *plant) { p.messages = append(p.messages, p.messages[0]) }, "have the same link"},
		"TokenThatIsKept":      {func(p *plant) { p.leaks = []string{"3 rows of reviews"} }, "reviews hold a token"},
		"WriteOfWhatWasRejected": {
			func(p *plant) {
				run := p.runs[1].RunID
				p.effects = append(p.effects, effectFact{RunID: run, OperationID: "op1-x", State: ledger.EffectCompleted})
				p.writes = append(p.writes, sandbox.Write{Reference: "op1-x", Refund: &sandbox.Refund{PaymentID: "p-key-2"}})
			}, "told as failed, and the provider has the write"},
		"SecondRefundOfOnePayment": {
			func(p *plant) {
				p.writes = append(p.writes, sandbox.Write{Reference: "op1-y", ObjectID: "re_2", Refund: p.writes[0].Refund})
			}, "writes to p-key-1 under 2 operation ids"},
	} {
		t.Run(name+"IsFound", func(t *testing.T) {
			t.Parallel()
			p := newDecided()
			c.plant(p)
			require.Contains(t, strings.Join(check(p.expected, p.facts).broken, "\n"), c.tells)
		})
	}

	for name, change := range map[string]func(*plant){
		"RequestThatNobodyWasToldOf": func(p *plant) { p.approvals[0].Announced = false },
		"MessageOnItsWay":            func(p *plant) { p.notices[0].State = "waiting" },
	} {
		t.Run(name+"IsWaitedFor", func(t *testing.T) {
			t.Parallel()
			p := newDecided()
			change(p)
			require.False(t, settled(p.expected, p.facts))
		})
	}
}

func TestTokenIn(t *testing.T) {
	t.Parallel()
	token := strings.Repeat("aB3_-", 9)[:43]
	for name, c := range map[string]struct{ text, token string }{
		"LinkOfAMailIsFound":     {"Decide here:\r\nhttp://127.0.0.1:8082/l/" + token + "\r\n\r\nOpening it", token},
		"ShorterTokenIsNoToken":  {"http://127.0.0.1:8082/l/" + token[1:], ""},
		"TextWithoutALinkHasNil": {"Decide by Monday", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.token, tokenIn(c.text))
		})
	}
}
