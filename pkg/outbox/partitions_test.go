package outbox_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMaintainPartitions(t *testing.T) {
	t.Parallel()
	day := func(n int) string { return time.Now().UTC().AddDate(0, 0, n).Format("20060102") }
	partitions := func(t *testing.T, b *bench, table string) (names []string) {
		t.Helper()
		rows, err := b.owner.Query(t.Context(), `select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = $1::regclass and c.relname ~ '[0-9]{8}$' order by 1`, table)
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var name string
			require.NoError(t, rows.Scan(&name))
			names = append(names, strings.TrimPrefix(name, table+"_"))
		}
		return names
	}
	// old makes the partition of a day long past.
	old := func(t *testing.T, b *bench, table string, n int) {
		t.Helper()
		b.exec(t, `do $$ begin execute format('create table `+table+`_`+day(n)+` partition of `+table+` for values from (%L) to (%L)',
uuid_at(date '`+day(n)+`'), uuid_at(date '`+day(n)+`' + 1)); end $$`)
	}

	t.Run("AWeekAheadIsMadeOnce", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.exec(t, `drop table event_log_`+day(7)+`, event_log_`+day(6)+`, inbox_`+day(7))
		require.NoError(t, b.store.MaintainPartitions(t.Context(), 7, 14))
		want := make([]string, 0, 9)
		for n := -1; n <= 7; n++ {
			want = append(want, day(n))
		}
		require.Equal(t, want, partitions(t, b, "event_log"))
		require.Equal(t, want, partitions(t, b, "inbox"))
		require.NoError(t, b.store.MaintainPartitions(t.Context(), 7, 14))
		require.Equal(t, want, partitions(t, b, "event_log"))
	})

	t.Run("EventsLieInThePartitionOfTheirDay", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.commit(t, "one")
		require.Equal(t, 1, b.count(t, `select count(*) from event_log_`+day(0)))
	})

	t.Run("ExpiredAreDropped", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for _, n := range []int{-3, -4} {
			old(t, b, "event_log", n)
			old(t, b, "inbox", n)
		}
		old(t, b, "inbox", -6)
		require.NoError(t, b.store.MaintainPartitions(t.Context(), 3, 5))
		require.Equal(t, []string{day(-3), day(-1)}, partitions(t, b, "event_log")[:2])
		require.Equal(t, []string{day(-4), day(-3)}, partitions(t, b, "inbox")[:2])
	})

	t.Run("WhatTheBrokerHasNotTakenIsKept", func(t *testing.T) { // B3
		t.Parallel()
		b := newBench(t)
		old(t, b, "event_log", -10)
		old(t, b, "inbox", -10)
		ids := b.commit(t, "unpublished")
		b.exec(t, `update event_log set event_id = uuid_at(date '`+day(-10)+`') where event_id = $1`, ids[0])
		b.exec(t, `update pending set event_id = uuid_at(date '`+day(-10)+`')`)
		require.NoError(t, b.store.MaintainPartitions(t.Context(), 3, 5))
		require.Equal(t, day(-10), partitions(t, b, "event_log")[0])
		require.Equal(t, day(-10), partitions(t, b, "inbox")[0], "the inbox outlives its log")
		require.Equal(t, 1, b.pass(t, 0, 10).Published)
		require.NoError(t, b.store.MaintainPartitions(t.Context(), 3, 5))
		require.Equal(t, day(-1), partitions(t, b, "event_log")[0])
		require.Equal(t, day(-1), partitions(t, b, "inbox")[0])
	})

	t.Run("DayThatHadNoPartitionIsMadeUpFor", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.exec(t, `drop table event_log_`+day(0)+`, inbox_`+day(0))
		ids := b.commit(t, "one")
		b.exec(t, `insert into inbox (consumer, event_id) values (1, $1)`, ids[0])
		require.Equal(t, 1, b.count(t, `select count(*) from event_log_rest`))
		require.NoError(t, b.store.MaintainPartitions(t.Context(), 7, 14))
		require.Zero(t, b.count(t, `select count(*) from event_log_rest`))
		require.Equal(t, 1, b.count(t, `select count(*) from event_log_`+day(0)))
		require.Equal(t, 1, b.count(t, `select count(*) from inbox_`+day(0)))
		require.Equal(t, 1, b.pass(t, 0, 10).Published)
	})

	t.Run("InboxMustOutliveTheLog", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		require.ErrorContains(t, b.store.MaintainPartitions(t.Context(), 7, 7), "must outlive")
		require.ErrorContains(t, b.store.MaintainPartitions(t.Context(), 1, 7), "at least 2 days")
	})

	t.Run("PartitionInUseIsLeftForAnotherTime", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		old(t, b, "event_log", -10)
		reader := b.begin(t)
		_, err := reader.Exec(t.Context(), `select count(*) from event_log_`+day(-10))
		require.NoError(t, err)
		require.NoError(t, b.store.MaintainPartitions(t.Context(), 3, 5), "nobody queues behind it for long")
		require.Equal(t, day(-10), partitions(t, b, "event_log")[0])
		require.NoError(t, reader.Rollback(context.WithoutCancel(t.Context())))
		require.NoError(t, b.store.MaintainPartitions(t.Context(), 3, 5))
		require.Equal(t, day(-1), partitions(t, b, "event_log")[0])
	})
}
