package bus_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
)

// targets are where acme would like the broker to write. Its own ingress is not among them: it may publish there.
var targets = []string{
	bus.IngressSubject("other", "crm"), bus.APISubject("other", "claim.crm"),
	bus.EventSubject("other", "run", "completed"), bus.EventSubject("acme", "run", "completed"),
	bus.ExecSubject("other", "crm"), bus.ExecSubject("acme", "crm"),
	bus.InternalSubject("intent", "submitted"), bus.InternalSubject("effect", "requested"), bus.WakeSubject("relay"),
	bus.InboxPrefix("other") + ".1", "_INBOX.1", "holdpoint.readers.CREATE." + bus.EventsStream("other"),
}

// crossing is a broker with a reader of acme's, and others who listen for what acme may have the broker write.
type crossing struct {
	*guarded
	reader jetstream.Consumer // acme's, of its events
	heard  chan *nats.Msg     // on the targets in our account, and on all that the other tenant may listen on
}

// eventsOfAcme are as many as each case needs.
var eventsOfAcme = 2 * len(targets)

func newCrossing(t *testing.T) *crossing {
	t.Helper()
	t.Parallel()
	c := &crossing{guarded: guard(t), heard: make(chan *nats.Msg, 1000)}
	js, err := jetstream.New(c.acme)
	require.NoError(t, err)
	c.reader, err = js.CreateConsumer(t.Context(), bus.EventsStream("acme"), jetstream.ConsumerConfig{Durable: "r",
		Description: "what acme wants", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	for range eventsOfAcme {
		_, err = c.ours.Publish(t.Context(), bus.EventSubject("acme", "run", "failed"), []byte(`{"id":"e-1"}`))
		require.NoError(t, err)
	}
	for nc, subjects := range map[*nats.Conn][]string{c.ours.Conn(): targets,
		c.other: {"_INBOX.>", "_INBOX_other.>", "holdpoint.events.other.>"}} {
		for _, subject := range subjects {
			sub, err := nc.ChanSubscribe(subject, c.heard)
			require.NoError(t, err)
			t.Cleanup(func() { _ = sub.Unsubscribe() })
		}
		require.NoError(t, nc.Flush())
	}
	return c
}

// requireNothingCrossed has the broker do for acme what it answers later than all that acme asked for before, then
// looks around.
func (c *crossing) requireNothingCrossed(t *testing.T) {
	t.Helper()
	managed := "$JS.API.CONSUMER.INFO." + bus.EventsStream("acme") + ".r"
	for _, subject := range []string{managed, managed, managed, bus.IngressSubject("acme", "crm")} {
		_, err := c.acme.Request(subject, nil, waitLimit)
		require.NoError(t, err)
	}
	require.NoError(t, c.ours.Conn().Flush())
	require.NoError(t, c.other.Flush())
	require.Empty(t, c.heard, "the broker carried something across")
	require.Empty(t, c.acmeRefusals)
	for _, stream := range bus.NewTopology([]string{"acme", "other"}).Streams {
		info, err := c.us.StreamInfo(t.Context(), stream.Name)
		require.NoError(t, err)
		switch stream.Name {
		case bus.IngressStream("acme"):
		case bus.EventsStream("acme"):
			require.EqualValues(t, eventsOfAcme, info.LastSeq, "something was put among acme's own events")
		default:
			require.Zero(t, info.LastSeq, stream.Name)
		}
	}
}

// TestNothingCrosses is B7 where the broker does not look: it checks what a tenant publishes on, not where the tenant
// asks it to answer or to deliver. Whatever it writes at acme's request stays in acme's account.
func TestNothingCrosses(t *testing.T) {
	t.Parallel()

	for name, subject := range map[string]string{
		"AnAcknowledgementOfAPublish":            bus.IngressSubject("acme", "crm"),
		"AnAnswerOfTheManagementInterface":       "$JS.API.CONSUMER.INFO." + bus.EventsStream("acme") + ".r",
		"AnAnswerAboutAStream":                   "$JS.API.STREAM.INFO." + bus.EventsStream("acme"),
		"AnEventThatWasAskedFor":                 "$JS.API.CONSUMER.MSG.NEXT." + bus.EventsStream("acme") + ".r",
		"ARefusalOfAReader":                      "$JS.API.CONSUMER.CREATE." + bus.EventsStream("acme"),
		"AnAnswerThatNobodyListensForARequestTo": bus.APISubject("acme", "claim.crm"),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrossing(t)
			for _, target := range targets {
				require.NoError(t, c.acme.PublishRequest(subject, target, []byte("1")))
			}
			c.requireNothingCrossed(t)
		})
	}

	t.Run("AnEventInTheAcknowledgementOfAnother", func(t *testing.T) {
		c := newCrossing(t)
		for _, target := range targets {
			msg, err := c.reader.Next(jetstream.FetchMaxWait(waitLimit))
			require.NoError(t, err)
			require.NoError(t, c.acme.PublishRequest(msg.Reply(), target, []byte("+NXT")))
		}
		c.requireNothingCrossed(t)
	})

	t.Run("AnAnswerOfOurs", func(t *testing.T) {
		c := newCrossing(t)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		claim := bus.APISubject("acme", "claim.crm")
		go func() {
			ended <- bus.Serve(ctx, c.us, bus.ServeConfig{Name: "holdpoint-acme", Version: "1.0.0", Tenant: "acme",
				Endpoints: []bus.Endpoint{{Name: "claim", Subject: claim,
					Handle: func(context.Context, bus.Request) bus.Reply { return bus.Reply{Data: []byte("a lease")} }}}})
		}()
		require.Eventually(t, func() bool {
			_, err := c.acme.Request(claim, nil, waitLimit)
			return err == nil
		}, waitLimit, pollEvery)
		for _, target := range targets {
			require.NoError(t, c.acme.PublishRequest(claim, target, nil))
		}
		_, err := c.acme.Request(claim, nil, waitLimit)
		require.NoError(t, err)
		cancel()
		require.NoError(t, <-ended) // all are answered
		c.requireNothingCrossed(t)
	})

	// A consumer that delivers writes in the account that holds the stream, which is ours. None is made for a tenant.
	t.Run("ADelivery", func(t *testing.T) {
		c := newCrossing(t)
		events := bus.EventsStream("acme")
		for _, target := range targets {
			for _, config := range delivering(target) {
				body := `{"stream_name":"` + events + `","config":` + config + `}`
				for _, form := range []string{"CREATE." + events, "CREATE." + events + ".spy", "CREATE." + events + ".r",
					"DURABLE.CREATE." + events + ".spy", "DURABLE.CREATE." + events + ".r"} {
					answer, err := c.acme.Request("$JS.API.CONSUMER."+form, []byte(body), waitLimit)
					require.NoError(t, err)
					require.Contains(t, string(answer.Data), "none delivers by itself", "%s %s", form, body)
				}
			}
		}
		c.requireNothingCrossed(t)
		answer, err := c.acme.Request("$JS.API.CONSUMER.NAMES."+events, nil, waitLimit)
		require.NoError(t, err)
		var readers struct{ Consumers []string }
		require.NoError(t, json.Unmarshal(answer.Data, &readers))
		require.Equal(t, []string{"r"}, readers.Consumers)
	})

	t.Run("WhatItsHeadersAskFor", func(t *testing.T) {
		c := newCrossing(t)
		for _, target := range targets {
			msg := nats.NewMsg(bus.IngressSubject("acme", "crm"))
			for _, header := range []string{"Nats-Schedule-Target", "Nats-Rollup", "Nats-Request-Info", "Nats-Subject"} {
				msg.Header.Set(header, target)
			}
			require.NoError(t, c.acme.PublishMsg(msg))
		}
		c.requireNothingCrossed(t)
		for _, target := range targets {
			msg := nats.NewMsg(bus.IngressSubject("acme", "crm"))
			msg.Header.Set("Nats-Trace-Dest", target)
			require.NoError(t, c.acme.PublishMsg(msg))
			c.refused(t, target)
		}
		c.requireNothingCrossed(t)
	})
}

// delivering are configurations of consumers that deliver to a subject, in the ways in which JSON may say so.
func delivering(target string) []string {
	return []string{
		`{"name":"spy","deliver_subject":"` + target + `"}`,
		`{"durable_name":"spy","deliver_subject":"` + target + `"}`,
		`{"durable_name":"spy","DELIVER_SUBJECT":"` + target + `"}`,
		`{"durable_name":"spy","deliver_\u0073ubject":"` + target + `"}`,
		`{"durable_name":"spy","deliver_subject":"` + target + `"},"CONFIG":{"name":"spy"}`,
		`{"durable_name":"spy"},"CONFIG":{"deliver_subject":"` + target + `"}`,
		`{"durable_name":"r","deliver_subject":"` + target + `"}`,
		`{"name":"spy","direct":true,"deliver_subject":"` + target + `"}`,
	}
}
