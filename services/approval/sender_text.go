package approval

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// linking is what mail and chat programs make links of: a scheme, and a dot before a letter as in a domain.
var linking = regexp.MustCompile(`://|\.\pL`)

// unlinked breaks what would become a link: the only one in a message is ours, and who trusts the message trusts it.
func unlinked(text string) string {
	return linking.ReplaceAllStringFunc(text, func(found string) string {
		if found == "://" {
			return "⟦://⟧"
		}
		return "⟦.⟧" + found[1:]
	})
}

// headings say why a message comes.
var headings = map[string]string{
	ledger.NoticeRequest:    "A decision is waiting for you",
	ledger.NoticeReminder:   "A decision is still waiting for you",
	ledger.NoticeEscalation: "Nobody has decided yet, and you may",
	ledger.NoticeBreakGlass: "Somebody has approved alone (break-glass)",
}

// text is the same for every kind of message. What an event wrote is shown as the pages show it: nothing in it is invisible.
func text(m *message) string {
	if m.Kind == ledger.NoticeBreakGlass {
		return aloneText(m)
	}
	return fmt.Sprintf(`%s at Holdpoint.

  What        %s
  For         %s
  Reference   %s
  Tenant      %s
  Decide by   %s

%s

The link shows the request after you have signed in. Opening it decides nothing. If somebody else has
decided in the meantime, it says so.
`, headings[m.Kind], plainly(m.Asked.ActionType), strings.Join(m.Asked.Audience, ", "), unlinked(plainly(m.Asked.CorrelationID)), m.Tenant,
		m.Asked.DecideBy.UTC().Format(time.RFC1123), m.Link)
}

// aloneText is for what was approved alone: there is nothing to decide, and somebody else has to look at it.
func aloneText(m *message) string {
	return fmt.Sprintf(`%s at Holdpoint.

  What        %s
  For         %s
  Reference   %s
  Tenant      %s
  Look at it by %s

%s

The link shows who approved it and why, after you have signed in. Somebody else than them has to say
whether that was right.
`, headings[m.Kind], plainly(m.Asked.ActionType), strings.Join(m.Asked.Audience, ", "), unlinked(plainly(m.Asked.CorrelationID)), m.Tenant,
		m.ReviewBy.UTC().Format(time.RFC1123), m.Link)
}

// ownWords reports whether a channel's own words fit the message: they say that a decision waits, which is wrong where none does.
func (m *message) ownWords() bool { return m.Kind != ledger.NoticeBreakGlass }

// aloud is a value in a message: as the pages show it, and no link.
func aloud(text string) string { return clip(unlinked(plainly(text)), longestField) }

// fields are what a channel's own words can take; mail adds the correlation id.
func (m *message) fields() *config.MessageFields {
	return &config.MessageFields{
		ActionType: m.action(), Risk: m.risk(), Tenant: aloud(m.Tenant), DecideBy: m.Asked.DecideBy.UTC().Format(time.RFC1123),
		TimeLeft: span(time.Until(m.Asked.DecideBy)), Kind: m.Kind, Link: m.Link,
	}
}

// longestField is how many characters of one value a message shows.
const longestField = 200

// action keeps the dots of a type that is registered: it is the operator's own word, and would be a link in few programs.
func (m *message) action() string {
	if m.Risk != "" {
		return clip(plainly(m.Asked.ActionType), longestField)
	}
	return aloud(m.Asked.ActionType)
}

func (m *message) risk() string {
	if m.Risk == "" {
		return "unknown" // the action is not configured any more
	}
	return m.Risk
}

func clip(text string, longest int) string {
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest-1]) + "…"
	}
	return text
}

// chatText is what a chat is told, without the link. It has more readers than those who may decide, so it holds no personal data, no
// amount, nothing of the proposal, and neither the correlation id nor the key, which are the sender's own words (A18).
func chatText(m *message) string {
	f := m.fields()
	if m.Kind == ledger.NoticeBreakGlass {
		return fmt.Sprintf(`%s at Holdpoint.
What: %s
Risk: %s
Tenant: %s
Look at it by: %s
The link shows it to who has signed in and may look at it.`, headings[m.Kind], f.ActionType, f.Risk, f.Tenant,
			m.ReviewBy.UTC().Format(time.RFC1123))
	}
	return fmt.Sprintf(`%s at Holdpoint.
What: %s
Risk: %s
Tenant: %s
Decide by: %s (%s left)
Opening the link decides nothing; it shows the request to who has signed in and may decide it.`,
		headings[m.Kind], f.ActionType, f.Risk, f.Tenant, f.DecideBy, f.TimeLeft)
}
