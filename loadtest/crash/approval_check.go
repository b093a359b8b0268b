package crash

import (
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// decidedAs is how the approval of a case must end, by how its event does.
var decidedAs = map[ending]string{
	completed:  ledger.ApprovalApproved,
	turnedDown: ledger.ApprovalRejected,
	outOfTime:  ledger.ApprovalExpired,
	takenBack:  ledger.ApprovalSuperseded,
	unrevised:  ledger.ApprovalSuperseded,
}

// decisions looks at what people decided: one request for each event that asks for one, decided once, and with nothing
// queued where it was not approved.
func (c *checker) decisions(all []expected) {
	byRun := map[uuid.UUID][]*approvalFact{}
	for i := range c.approvals {
		a := &c.approvals[i]
		byRun[a.RunID] = append(byRun[a.RunID], a)
		c.decision(a)
	}
	for _, e := range all {
		if !e.asks {
			continue
		}
		asked := byRun[e.run]
		switch {
		case len(asked) != 1:
			c.tell("%s: %d requests were made of people for it, where one was due (A1)", c.about(e.run), len(asked))
		case asked[0].State != decidedAs[e.ends]:
			c.tell("%s: its request is %s, not %s", c.about(e.run), asked[0].State, decidedAs[e.ends])
		}
	}
	c.notifications()
	c.secrets()
}

// decision looks whether an approval was decided once, and what follows from it happened once (A7, A8).
func (c *checker) decision(a *approvalFact) {
	final, byVote, authorized := 1, 0, 0
	switch a.State {
	case ledger.ApprovalPending:
		final = 0
	case ledger.ApprovalApproved:
		byVote, authorized = 1, 1
	case ledger.ApprovalRejected:
		byVote = 1
	case ledger.ApprovalSuperseded:
		byVote = a.SendingBack // 0 where it was withdrawn
	}
	for _, count := range []struct {
		what       string
		is, wanted int
	}{
		{"audit rows of its final decision", a.FinalAudits, final},
		{"events that tell of its final decision", a.FinalEvents, byVote},
		{"authorizations", a.Authorizations, authorized},
	} {
		if count.is != count.wanted {
			c.tell("%s: its request is %s and has %d %s, not %d (A7)",
				c.about(a.RunID), a.State, count.is, count.what, count.wanted)
		}
	}
	switch {
	case a.Votes > a.Voters:
		c.tell("%s: %d people cast %d votes (A8)", c.about(a.RunID), a.Voters, a.Votes)
	case a.State == ledger.ApprovalApproved && (a.Approving == 0 || a.Rejecting > 0),
		a.State == ledger.ApprovalRejected && a.Rejecting != 1:
		c.tell("%s: its request is %s by %d votes for it and %d against (A7)",
			c.about(a.RunID), a.State, a.Approving, a.Rejecting)
	}
	if final == 1 && a.LiveTokens > 0 {
		c.tell("%s: its request is %s, and %d links could still be used (A7)", c.about(a.RunID), a.State, a.LiveTokens)
	}
}

// notifications looks whether everybody who was due to be told was told, whichever process died (A1).
func (c *checker) notifications() {
	arrived := map[string]bool{}
	for _, t := range c.told() {
		arrived[t.ApprovalID.String()+" "+t.Address] = true
	}
	for i := range c.approvals {
		if a := &c.approvals[i]; !a.Announced {
			c.tell("%s: nobody was ever to be told of its request (A1)", c.about(a.RunID))
		}
	}
	for _, n := range c.notices {
		switch {
		case n.State == noticeWaiting || n.State == noticeFailed:
			c.tell("%s: the message to %s is %s (A1)", c.about(n.RunID), n.Address, n.State)
		case n.Timely && !arrived[n.ApprovalID.String()+" "+n.Address]:
			c.tell("%s: the message to %s counts as sent, and never arrived (A1)", c.about(n.RunID), n.Address)
		}
	}
}

// States of notifications that are no end.
const (
	noticeWaiting = "waiting"
	noticeFailed  = "failed"
)

// told are the traces of the tokens that arrived.
func (c *checker) told() []tokenFact {
	byHash := map[string]tokenFact{}
	for _, t := range c.tokens {
		byHash[string(t.Hash)] = t
	}
	var all []tokenFact
	for i := range c.messages {
		m := &c.messages[i]
		t, known := byHash[m.hash()]
		if !known || t.Address != m.Address {
			c.tell("a message to %s has a link that was not minted for it (A2)", m.Address)
			continue
		}
		all = append(all, t)
	}
	return all
}

// secrets looks whether a token was sent twice, or is kept as it was sent (A2).
func (c *checker) secrets() {
	seen := map[string]bool{}
	for i := range c.messages {
		m := &c.messages[i]
		if seen[m.Token] {
			c.tell("two messages to %s have the same link (A2)", m.Address)
		}
		seen[m.Token] = true
	}
	for _, leak := range c.leaks {
		c.tell("%s hold a token as it was sent (A2)", leak)
	}
}

// hasToldEverybody reports whether no message is under way.
func (p *people) hasToldEverybody() bool {
	for i := range p.approvals {
		if !p.approvals[i].Announced {
			return false
		}
	}
	for _, n := range p.notices {
		if n.State == noticeWaiting {
			return false
		}
	}
	return true
}
