package main

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

func TestNATSDoor(t *testing.T) {
	t.Parallel()

	setup := func(t *testing.T) (*natsDoor, time.Time) {
		t.Helper()
		s := newSession(options{flow: "auto", keys: 10, duplicates: 1, concurrency: 10}, ready{Tenant: "demo"})
		d := newNATSDoor(s, s.plan.sole())
		d.inbox = "_INBOX.x."
		for n := range 4 {
			require.True(t, d.acquire(t.Context()))
			d.begin(n, s.start.Add(time.Duration(n)*time.Second))
		}
		return d, s.start
	}
	accepted := []byte(`{"result":"accepted","run_id":"r-1"}`)

	t.Run("AnswerSettlesItsDeliveryOnce", func(t *testing.T) {
		t.Parallel()
		d, _ := setup(t)
		for range 2 {
			d.answered(&nats.Msg{Subject: "_INBOX.x.a.2", Data: accepted})
		}
		require.EqualValues(t, 1, d.own.accepted.Load())
		require.Equal(t, "r-1", *d.board.entries[2].run.Load())
		require.Len(t, d.window, 3)
	})

	t.Run("BrokersAcknowledgementIsNoAnswer", func(t *testing.T) {
		t.Parallel()
		d, _ := setup(t)
		d.answered(&nats.Msg{Subject: "_INBOX.x.s.2", Data: []byte(`{"stream":"S","seq":3}`)})
		require.Equal(t, totals{sent: 4}, d.tally.totals())
		require.Len(t, d.window, 4)
	})

	t.Run("WhatTheBrokerDidNotStoreIsAnError", func(t *testing.T) {
		t.Parallel()
		for want, msg := range map[string]*nats.Msg{
			"1 × NATS: no stream takes the ingress subject (status 503)": {Header: nats.Header{"Status": {"503"}}},
			"1 × NATS: not stored: maximum bytes exceeded": {
				Data: []byte(`{"error":{"code":503,"description":"maximum bytes exceeded"}}`)},
			"1 × NATS: the broker took a copy for a repeat of one message id": {
				Data: []byte(`{"stream":"S","seq":3,"duplicate":true}`)},
		} {
			d, _ := setup(t)
			msg.Subject = "_INBOX.x.s.1"
			d.answered(msg)
			require.Equal(t, []string{want}, d.tally.loudest(5))
			require.Len(t, d.window, 3)
		}
	})

	t.Run("UnansweredDeliveriesAreGivenUpOldestFirst", func(t *testing.T) {
		t.Parallel()
		d, start := setup(t)
		d.answered(&nats.Msg{Subject: "_INBOX.x.a.1", Data: accepted})
		d.expire(start.Add(2500 * time.Millisecond)) // deliveries 0 and 2 were due before, 1 is answered, 3 is younger
		require.Equal(t, totals{sent: 4, accepted: 1, errors: 2}, d.tally.totals())
		require.Equal(t, 3, d.oldest)
		require.Len(t, d.window, 1)
		d.answered(&nats.Msg{Subject: "_INBOX.x.a.0", Data: accepted})
		require.EqualValues(t, 1, d.own.accepted.Load(), "an answer that comes too late stays an error")
	})

	t.Run("StrangeRepliesAreIgnored", func(t *testing.T) {
		t.Parallel()
		d, _ := setup(t)
		for _, subject := range []string{"_INBOX.x.a.99", "_INBOX.x.a.-1", "_INBOX.x.a.z", "_INBOX.x.a"} {
			d.answered(&nats.Msg{Subject: subject, Data: accepted})
		}
		require.Equal(t, totals{sent: 4}, d.tally.totals())
	})
}
