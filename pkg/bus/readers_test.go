package bus_test

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
)

// TestReaders are consumers that tenants' programs ask for and we have made. TestNothingCrosses tries those that
// deliver, TestTenantRightsSuffice those that are good.
func TestReaders(t *testing.T) {
	t.Parallel()
	events := bus.EventsStream("acme")
	ask := func(t *testing.T, g *guarded, form, body string) server.JSApiConsumerCreateResponse {
		t.Helper()
		answer, err := g.acme.Request("$JS.API.CONSUMER."+form, []byte(body), waitLimit)
		require.NoError(t, err)
		var told server.JSApiConsumerCreateResponse
		require.NoError(t, json.Unmarshal(answer.Data, &told))
		require.Equal(t, server.JSApiConsumerCreateResponseType, told.Type)
		return told
	}

	t.Run("WhatIsNotUnderstoodIsRefused", func(t *testing.T) {
		t.Parallel()
		g := guard(t)
		for _, body := range []string{"", "x", `{"more":1}`, `{"config":{"surprise":true}}`,
			`{"config":{"ack_policy":"maybe"}}`, `{"stream_name":"` + events + `","config":{"sourcing":true}}`} {
			told := ask(t, g, "CREATE."+events, body)
			require.NotNil(t, told.Error, body)
		}
		require.Contains(t, ask(t, g, "CREATE."+events, `{"more":1}`).Error.Description, `unknown field "more"`)
	})

	t.Run("TheBrokersOwnRefusalIsToldAsItIs", func(t *testing.T) {
		t.Parallel()
		g := guard(t)
		told := ask(t, g, "CREATE."+events+".spy", `{"stream_name":"`+bus.EventsStream("other")+`","config":{"name":"spy"}}`)
		require.Equal(t, uint16(server.JSStreamMismatchErr), told.Error.ErrCode)
	})

	t.Run("APullingOneDoesNotBecomeOneThatDelivers", func(t *testing.T) {
		t.Parallel()
		g := guard(t)
		body := `{"stream_name":"` + events + `","config":{"durable_name":"r","ack_policy":"explicit"`
		require.Nil(t, ask(t, g, "DURABLE.CREATE."+events+".r", body+`}}`).Error)
		told := ask(t, g, "CREATE."+events+".r", body+`,"deliver_subject":"_INBOX_acme.1"},"action":"update"}`)
		require.Equal(t, uint16(server.JSConsumerInvalidDeliverSubject), told.Error.ErrCode)
	})

	t.Run("ARequestWithoutAnInboxIsIgnored", func(t *testing.T) {
		t.Parallel()
		g := guard(t)
		body := func(name string) string { return `{"stream_name":"` + events + `","config":{"name":"` + name + `"}}` }
		require.NoError(t, g.acme.Publish("$JS.API.CONSUMER.CREATE."+events+".unheard", []byte(body("unheard"))))
		require.Nil(t, ask(t, g, "CREATE."+events+".heard", body("heard")).Error)
		js, err := jetstream.New(g.acme)
		require.NoError(t, err)
		_, err = js.Consumer(t.Context(), events, "unheard")
		require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
	})

	// The relay may be away; readers that were made go on.
	t.Run("NoneIsMadeWhileNobodyWatches", func(t *testing.T) {
		t.Parallel()
		g := guard(t)
		js, err := jetstream.New(g.acme)
		require.NoError(t, err)
		reader, err := js.CreateConsumer(t.Context(), events, jetstream.ConsumerConfig{Durable: "r"})
		require.NoError(t, err)
		g.stopWatching()
		_, err = js.CreateConsumer(t.Context(), events, jetstream.ConsumerConfig{Durable: "s"})
		require.ErrorIs(t, err, nats.ErrNoResponders)
		_, err = g.ours.Publish(t.Context(), bus.EventSubject("acme", "run", "completed"), []byte("1"))
		require.NoError(t, err)
		_, err = reader.Next(jetstream.FetchMaxWait(waitLimit))
		require.NoError(t, err)
	})

	// The broker remembers a request until it is answered; what tenants do all day leaves nothing with it.
	t.Run("NothingIsLeftOfWhatWasAnswered", func(t *testing.T) {
		t.Parallel()
		g := guard(t)
		js, err := jetstream.New(g.acme)
		require.NoError(t, err)
		acking := jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy}
		reader, err := js.CreateConsumer(t.Context(), events, acking)
		require.NoError(t, err)
		for range 20 {
			_, err := js.Publish(t.Context(), bus.IngressSubject("acme", "crm"), nil)
			require.NoError(t, err)
			_, err = g.ours.Publish(t.Context(), bus.EventSubject("acme", "run", "completed"), nil)
			require.NoError(t, err)
			event, err := reader.Next(jetstream.FetchMaxWait(waitLimit))
			require.NoError(t, err)
			require.NoError(t, event.DoubleAck(t.Context()))
		}
		require.Eventually(t, func() bool {
			accounts, err := g.server.Accountz(&server.AccountzOptions{Account: bus.ServicesAccount})
			return err == nil && len(accounts.Account.Responses) == 0
		}, waitLimit, pollEvery)
	})
}
