package sandbox_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/loadtest/sandbox/sandboxtest"
)

// onMail applies the fault to the next delivery to Rita.
func onMail(f sandbox.Fault) sandbox.Rule {
	return sandbox.Rule{
		Match: sandbox.Match{
			System: sandbox.Mailbox, Operation: sandbox.Deliver, Reference: "rita@example.com", Count: 1,
		},
		Fault: f,
	}
}

func TestMailFaults(t *testing.T) {
	t.Parallel()

	t.Run("RefusedRecipientKeepsTheOthers", func(t *testing.T) {
		t.Parallel()
		for status, fault := range map[int]sandbox.Fault{
			550: {Kind: sandbox.ErrorBeforeAccept, Status: 550, Message: "no such\r\nmailbox"},
			451: {Kind: sandbox.ErrorBeforeAccept, Status: 451, Message: "no such mailbox"},
		} {
			w := newWorld(t)
			w.fault(onMail(fault))
			client := w.smtp()
			require.NoError(t, client.Mail("holdpoint@example.com"))
			require.NoError(t, client.Rcpt("udo@example.com"))
			var refused *textproto.Error
			require.ErrorAs(t, client.Rcpt("Rita@example.com"), &refused)
			require.Equal(t, status, refused.Code)
			require.Contains(t, refused.Msg, "no such mailbox")
			body, err := client.Data()
			require.NoError(t, err)
			_, err = io.WriteString(body, letter)
			require.NoError(t, err)
			require.NoError(t, body.Close())
			require.Equal(t, []string{"udo@example.com"}, w.mailed("", 1)[0].To)
			require.NoError(t, w.post(letter, "rita@example.com"), "the rule has ended")
		}
	})

	t.Run("StatusThatSMTPDoesNotHaveIsTemporary", func(t *testing.T) {
		t.Parallel()
		for _, fault := range []sandbox.Fault{
			{Kind: sandbox.RateLimit},
			{Kind: sandbox.Redirect, Status: 302, Location: "/"},
		} {
			w := newWorld(t)
			w.fault(onMail(fault))
			require.ErrorContains(t, w.post(letter, "rita@example.com"), "451")
			w.mailed("", 0)
		}
	})

	t.Run("NthDeliveryIsCounted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(sandbox.Rule{
			Match: sandbox.Match{System: sandbox.Mailbox, Nth: 2},
			Fault: sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: 550},
		})
		require.NoError(t, w.post(letter, "a@example.com"))
		require.ErrorContains(t, w.post(letter, "b@example.com"), "550")
		require.NoError(t, w.post(letter, "c@example.com"))
	})

	t.Run("MessageIsStoredThoughTheAnswerIsLost", func(t *testing.T) {
		t.Parallel()
		for _, kind := range []sandbox.Kind{sandbox.AcceptThenReset, sandbox.TruncateBody} {
			w := newWorld(t)
			w.fault(onMail(sandbox.Fault{Kind: kind}))
			err := w.post(letter, "udo@example.com", "rita@example.com")
			require.Error(t, err)
			require.NotErrorAs(t, err, new(*textproto.Error), "there is no reply at all")
			w.mailed("rita@example.com", 1)
		}
	})

	t.Run("MessageIsStoredThoughTheAnswerIsAnError", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(onMail(sandbox.Fault{Kind: sandbox.ErrorAfterAccept, Status: 451}))
		require.ErrorContains(t, w.post(letter, "rita@example.com"), "451")
		w.mailed("rita@example.com", 1)
	})

	t.Run("ResetBeforeAcceptanceStoresNothing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(onMail(sandbox.Fault{Kind: sandbox.ResetBeforeAccept}))
		require.Error(t, w.post(letter, "rita@example.com"))
		w.mailed("", 0)
	})

	t.Run("HangEndsWithItsDurationOrTheSandbox", func(t *testing.T) {
		t.Parallel()
		client, stop := sandboxtest.Start(t, sandbox.Config{DataDir: t.TempDir()})
		w := world{Client: client, t: t, http: caller()}
		w.fault(onMail(sandbox.Fault{Kind: sandbox.HangBeforeAccept, Duration: 1}))
		require.Error(t, w.post(letter, "rita@example.com"))
		id := w.fault(onMail(sandbox.Fault{Kind: sandbox.AcceptThenHang}))
		sent := make(chan error, 1)
		go func() { sent <- w.post(letter, "rita@example.com") }()
		require.NoError(t, w.AwaitFault(t.Context(), id, 1))
		_, err := w.AwaitMail(t.Context(), "rita@example.com", 1)
		require.NoError(t, err)
		stop()
		require.Error(t, <-sent)
	})

	t.Run("SignalHasTheStoredMessageBeforeTheSenderHasItsAnswer", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		got := make(chan []byte, 1)
		callback := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got <- body
		}))
		t.Cleanup(callback.Close)
		w.fault(onMail(sandbox.Fault{Kind: sandbox.Signal, URL: callback.URL}))
		require.NoError(t, w.post(letter, "rita@example.com"))
		require.Contains(t, string(<-got), `"subject":"Hello"`)
	})
}
