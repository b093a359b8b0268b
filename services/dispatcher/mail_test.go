package dispatcher

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// post is a world in which changes of contacts are told by mail, to the sandbox's mail server.
type post struct{ *bench }

func setupPost(t *testing.T, changes ...func(*config.Tenant)) *post {
	t.Helper()
	w := servicetest.New(t)
	server, err := w.Sandbox.SMTPAddr(t.Context())
	require.NoError(t, err)
	byMail := func(c *config.Tenant) {
		k := servicetest.Connector(c, servicetest.CRM)
		k.Kind, k.BaseURL, k.AllowedHosts = config.ConnectorSMTP, "smtp://"+server, nil
		k.Mail = &config.MailServer{Server: server, TLS: config.TLSNone, From: "support@holdpoint.example"}
		k.Operations = []*config.Operation{{Name: servicetest.Update, Kind: config.OperationSend, Mail: &config.Mail{
			To:      []string{"${proposed_change.fields.city}", "${proposed_change.fields.job_title}"},
			Subject: "About ${target.record_id}", Text: "It is on its way."}}}
	}
	return &post{&bench{World: w, Dispatcher: another(t, w, append([]func(*config.Tenant){byMail}, changes...)...), t: t}}
}

// letter authorizes the message of a key to an address of its own, and to another where one is given.
func (p *post) letter(key string, another ...string) {
	p.t.Helper()
	fields := map[string]string{"city": mailbox(key), "job_title": mailbox(key)}
	if len(another) > 0 {
		fields["job_title"] = another[0]
	}
	p.Authorize(p.Contact(key, func(q *servicetest.Proposal) { q.ProposedChange = map[string]any{"fields": fields} }))
}

func mailbox(key string) string { return strings.ToLower(key) + "@example.test" }

// mails are what the server has for the mailbox of a key.
func (p *post) mails(key string) []sandbox.Mail {
	p.t.Helper()
	mails, err := p.Sandbox.Mail(p.t.Context(), mailbox(key))
	require.NoError(p.t, err)
	return mails
}

func (p *post) disturb(key string, f sandbox.Fault, nth int) {
	p.t.Helper()
	p.Fault(sandbox.Match{System: sandbox.Mailbox, Operation: sandbox.Deliver, Reference: mailbox(key), Nth: nth}, f)
}

func refuseMail(code int) sandbox.Fault {
	return sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: code}
}

// TestMail takes messages from an authorized effect to the mailbox. What counts is what the mail server has.
func TestMail(t *testing.T) {
	t.Parallel()
	world := setupPost(t)
	run := func(name string, test func(*testing.T, *post, string)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := *world.bench
			p.World, p.t = world.For(t), t
			test(t, &post{&p}, strings.ToLower(name))
		})
	}
	messageID := func(key string) string { return "<" + servicetest.Effect(key).OperationID() + "@holdpoint.example>" }

	run("OneMessageIsSentAndItsRunEnds", func(t *testing.T, p *post, key string) {
		p.letter(key)
		p.request(key)
		attempts := p.Attempts(key)
		require.Len(t, attempts, 1)
		require.Equal(t, string(outcome.Succeeded), attempts[0].Class, attempts[0].Detail)
		require.Equal(t, messageID(key), attempts[0].ExternalID, "the server names no id of its own")
		require.Equal(t, ledger.EffectCompleted, p.Look(key).State)
		require.Equal(t, ledger.RunCompleted, p.World.Run(key).State)
		mails := p.mails(key)
		require.Len(t, mails, 1)
		require.Equal(t, "About c-"+key, mails[0].Subject)
		require.Equal(t, messageID(key), mails[0].MessageID)
		p.due(key)
		p.request(key)
		require.Len(t, p.mails(key), 1, "a repeated event sends nothing")
	})

	for name, fault := range map[string]sandbox.Fault{
		"AnAnswerThatWasCutOff": {Kind: sandbox.AcceptThenReset},
		"AnAnswerThatNeverCame": {Kind: sandbox.AcceptThenHang, Duration: ms(50)},
	} {
		run(name+"LeavesItUnknownAndNothingIsSentAgain", func(t *testing.T, p *post, key string) { // DSP-06
			p.disturb(key, fault, 0)
			p.letter(key)
			p.request(key)
			e := p.Look(key)
			require.Equal(t, ledger.EffectUnknown, e.State)
			require.True(t, e.MaybeSent)
			require.Contains(t, p.Attempts(key)[0].Detail, messageID(key), "by which people can find it")
			for range 3 {
				p.due(key)
				p.request(key)
			}
			require.Len(t, p.Attempts(key), 1)
			require.Len(t, p.mails(key), 1)
			require.Equal(t, ledger.RunApproved, p.World.Run(key).State)
		})
	}

	run("EvenWhereItWaitsAgainItIsNotRepeated", func(t *testing.T, p *post, key string) { // D13
		p.disturb(key, sandbox.Fault{Kind: sandbox.AcceptThenReset}, 1)
		p.letter(key)
		p.maybeSent(key)
		p.request(key)
		require.Len(t, p.mails(key), 1)
		require.Equal(t, ledger.EffectUnknown, p.Look(key).State)
	})

	run("ARefusedMailboxIsFinal", func(t *testing.T, p *post, key string) {
		p.disturb(key, refuseMail(550), 0)
		p.letter(key)
		p.request(key)
		require.Equal(t, ledger.EffectFailed, p.World.Run(key).Effects[0].State)
		require.Equal(t, ledger.OutcomeFailed, p.World.Run(key).Outcome)
		require.Empty(t, p.mails(key))
	})

	run("ABusyServerIsTriedAgainWithTheSameBytes", func(t *testing.T, p *post, key string) { // D2
		p.disturb(key, refuseMail(451), 1)
		p.letter(key)
		p.request(key)
		require.Equal(t, ledger.EffectPending, p.Look(key).State)
		require.Empty(t, p.mails(key))
		p.due(key)
		p.request(key)
		require.Equal(t, ledger.EffectCompleted, p.Look(key).State)
		attempts := p.Attempts(key)
		require.Len(t, attempts, 2)
		require.False(t, attempts[0].Sent)
		require.Equal(t, attempts[0].Digest, attempts[1].Digest, "the date is that of the first attempt")
		require.Len(t, p.mails(key), 1)
	})

	run("OneRefusedRecipientKeepsItFromAll", func(t *testing.T, p *post, key string) {
		p.disturb(key+"-2", refuseMail(450), 1)
		p.letter(key, mailbox(key+"-2"))
		p.request(key)
		require.Contains(t, p.Attempts(key)[0].Detail, "number 2: 450")
		require.NotContains(t, p.Attempts(key)[0].Detail, "@")
		require.Empty(t, p.mails(key))
		p.due(key)
		p.request(key)
		require.Len(t, p.mails(key), 1, "the retry for the one is no repeat for the other")
		require.Len(t, p.mails(key+"-2"), 1)
	})

	run("AHostileAddressIsHeldAndNobodyIsConnectedTo", func(t *testing.T, p *post, key string) {
		p.letter(key, mailbox(key)+"\r\nRCPT TO:<eve@evil.example>")
		p.request(key)
		require.Equal(t, ledger.EffectHeld, p.Look(key).State)
		require.Equal(t, ledger.HoldIncident, p.Look(key).HoldReason)
		require.Len(t, p.alerts(key), 1)
		require.NotContains(t, p.alerts(key)[0], "example.test")
		require.NotContains(t, p.alerts(key)[0], "evil")
		require.Empty(t, p.mails(key))
	})

	t.Run("ASwitchThatClosesBeforeTheMessageStopsIt", func(t *testing.T) { // D9, D15
		t.Parallel()
		p := setupPost(t)
		p.beforeLeave(func(ledger.Fence) { p.Exec(`revoke select on kill_switches from holdpoint_dispatcher`) })
		p.letter("k")
		p.request("k")
		require.Equal(t, string(outcome.NotSent), p.Attempts("k")[0].Class)
		require.False(t, p.Attempts("k")[0].Sent)
		require.Equal(t, ledger.EffectPending, p.Look("k").State)
		require.Empty(t, p.mails("k"))
	})

	t.Run("NobodyListensAndNothingIsSent", func(t *testing.T) {
		t.Parallel()
		p := setupPost(t, func(c *config.Tenant) {
			k := servicetest.Connector(c, servicetest.CRM)
			k.Mail.Server, k.Timeout = "127.0.0.1:1", time.Second
		})
		p.letter("k")
		p.request("k")
		require.Equal(t, string(outcome.NotSent), p.Attempts("k")[0].Class)
		require.Equal(t, ledger.EffectPending, p.Look("k").State)
		require.False(t, p.Look("k").MaybeSent)
	})
}
