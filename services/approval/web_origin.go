package approval

import (
	"context"
	"net/url"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// origin is where the event says that it comes from (A10).
type origin struct {
	Told   string // the address of the workflow's execution as the event says it, "" where it says none
	Link   string // the same, where a browser may be sent there
	Source string // of a CloudEvent, with its id
	ID     string
}

// originOfEvent reads the event as it came, where its source says that something in it is for reviewers.
func (a *Approval) originOfEvent(ctx context.Context, t *tenant, card *ledger.Card) (origin, error) {
	source := t.sources[card.Source]
	if source == nil || source.Link == "" && !source.ActiveRules().Key.CloudEvent {
		return origin{}, nil
	}
	event, err := a.env.Ledger.Original(ctx, card.TenantID, card.RunID)
	if err != nil {
		return origin{}, err
	}
	return originIn(source, event), nil
}

func originIn(source *config.Source, event *ledger.Original) (o origin) {
	body, _ := canonical.Parse(event.Payload) // it was read before; a body that is none says nothing
	if link, there := body.Pointer(source.Link); there && source.Link != "" && link.Kind() == canonical.String {
		o.Told = link.Text()
		o.Link = secureAddress(o.Told)
	}
	if source.ActiveRules().Key.CloudEvent {
		o.Source, o.ID = cloudEventPart(body, event, "source"), cloudEventPart(body, event, "id")
	}
	return o
}

// cloudEventPart is an attribute of a CloudEvent: a header in binary mode, or else a member of the body.
func cloudEventPart(body canonical.Value, event *ledger.Original, name string) string {
	for header, value := range event.Headers {
		if strings.EqualFold(header, "ce-"+name) {
			if plain, err := url.PathUnescape(value); err == nil {
				return plain
			}
			return value
		}
	}
	part, _ := body.Get(name)
	if part.Kind() != canonical.String {
		return ""
	}
	return part.Text()
}

// secureAddress is the address if it is https.
func secureAddress(address string) string {
	if link := webAddress(address); strings.HasPrefix(link, "https://") {
		return link
	}
	return ""
}
