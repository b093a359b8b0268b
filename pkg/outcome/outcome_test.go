package outcome

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMatrix has one case for every row of the matrix, for an effect that was never maybe sent before.
func TestMatrix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		class Class
		want  Consequence
	}{
		{"NotSentIsPending", "not_sent", Consequence{Move: "pending"}},
		{"RejectedBusyIsPending", "rejected_busy", Consequence{Move: "pending"}},
		{"InProgressAtProviderIsUnknown", "in_progress_at_provider", Consequence{Move: "unknown", MaybeSent: true}},
		{"AmbiguousIsUnknown", "ambiguous", Consequence{Move: "unknown", MaybeSent: true}},
		{"AcceptedAwaitsTheWebhook", "accepted", Consequence{Move: "await_webhook", MaybeSent: true}},
		{"SucceededIsCompleted", "succeeded", Consequence{Move: "completed", MaybeSent: true}},
		{"RefusedIsFailed", "refused", Consequence{Move: "failed"}},
		{"VersionConflictGoesToReview", "version_conflict", Consequence{Move: "review"}},
		{"UnauthorizedIsHeld", "unauthorized", Consequence{Move: "held", Hold: "unauthorized", Alert: true}},
		{"KeyReusedIsHeldAsIncident", "key_reused", Consequence{Move: "held", Hold: "key_reused", Alert: true}},
		{"AnUnheardOfClassIsUnknown", "from_a_newer_release", Consequence{Move: "unknown", Alert: true, MaybeSent: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.class.Consequence(false))
			require.Equal(t, c.want.MaybeSent, c.class.MaybeSent())
			require.Equal(t, c.class != "from_a_newer_release", c.class.Valid())
		})
	}
}

// TestMaybeSentSticks goes through every class, from either mark (D6).
func TestMaybeSentSticks(t *testing.T) {
	t.Parallel()
	classes := append(Classes(), "", "from_a_newer_release")
	require.Len(t, classes, 12)
	settled := map[Class]Move{Succeeded: Completed, Accepted: AwaitWebhook}
	for _, class := range classes {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			first, later := class.Consequence(false), class.Consequence(true)
			require.True(t, later.MaybeSent, "the mark never comes off")
			require.Equal(t, class.MaybeSent(), first.MaybeSent)
			require.Equal(t, first.Alert, later.Alert, "an alert is not lost")
			require.Equal(t, first.Move == Held, first.Hold != "")
			if move, ok := settled[class]; ok {
				require.Equal(t, move, later.Move)
				return
			}
			require.Equal(t, Unknown, later.Move)
			require.Empty(t, later.Hold)
		})
	}

	t.Run("NothingButProofOfNoEffectIsTriedAgain", func(t *testing.T) {
		t.Parallel()
		for _, class := range classes {
			for _, before := range []bool{false, true} {
				got := class.Consequence(before)
				if got.Move == Pending || got.Move == Review || got.Move == Failed {
					require.False(t, got.MaybeSent, "%s would be sent, reviewed or closed although maybe sent", class)
				}
			}
		}
	})
}
