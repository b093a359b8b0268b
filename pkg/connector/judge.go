package connector

import (
	"crypto/sha256"
	"fmt"
	"net/http"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// judge draws the conclusion from a lookup's answer.
func judge(l *config.Lookup, op *Operation, a *answer) LookupResult {
	if l.Items == "" && a.status == http.StatusNotFound {
		return absent(l, "HTTP 404")
	}
	if a.status != http.StatusOK {
		return unclear("lookup answered HTTP %d", a.status)
	}
	body, err := a.json()
	if err != nil {
		return unclear("lookup's answer cannot be read: %v", err)
	}
	seen := fmt.Sprintf("HTTP 200, body sha256 %x", sha256.Sum256(a.body))
	if l.Items == "" {
		return single(l, op, body, seen)
	}
	items, found := body.Pointer(l.Items)
	if !found || items.Kind() != canonical.Array {
		return unclear("lookup's answer has no array at %q; %s", l.Items, seen)
	}
	var matches []canonical.Value
	for item := range items.Items() {
		if l.Match == "" || text(item, l.Match) == op.OperationID {
			matches = append(matches, item)
		}
	}
	seen = fmt.Sprintf("%d of %d match, %s", len(matches), items.Len(), seen)
	switch len(matches) {
	case 0:
		result := absent(l, seen)
		// What was asked for by reference and gives others was not looked for by it, or is one page of several.
		result.Conclusive = result.Conclusive && items.Len() == 0
		return result
	case 1:
		return one(l, matches[0], seen)
	}
	return LookupResult{Verdict: Several, Evidence: detail("%s", seen)}
}

func absent(l *config.Lookup, seen string) LookupResult {
	return LookupResult{Verdict: Absent, Evidence: detail("%s", seen), Conclusive: l.Conclusive}
}

// single judges a body that is the match itself. One that belongs to another operation is not absence: the provider
// answered something else than it was asked for.
func single(l *config.Lookup, op *Operation, body canonical.Value, seen string) LookupResult {
	if l.Match != "" && text(body, l.Match) != op.OperationID {
		return unclear("the record found belongs to another operation; %s", seen)
	}
	return one(l, body, seen)
}

func one(l *config.Lookup, match canonical.Value, seen string) LookupResult {
	id := text(match, l.ExternalID)
	if id == "" {
		return unclear("the match has no id at %q; %s", l.ExternalID, seen)
	}
	return LookupResult{
		Verdict: Found, ExternalID: id, RecordVersion: text(match, l.Version), Evidence: detail("%s", seen), Conclusive: true,
	}
}
