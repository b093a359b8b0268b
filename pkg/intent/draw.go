package intent

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// scopeFormat names the rule by which the values that a limit is counted per are digested.
const scopeFormat = "holdpoint-limit-1"

// Draws are what the action takes of its action type's limits (P8). Values that a limit is counted per are digested, because they
// may be personal; one that is absent counts as null. The error says which limit has no amount that can be added up.
func (s *Snapshot) Draws(a *config.Action) ([]ledger.Draw, error) {
	if len(a.Limits) == 0 {
		return nil, nil
	}
	draws := make([]ledger.Draw, len(a.Limits))
	for i, l := range a.Limits {
		draws[i] = ledger.Draw{Ordinal: s.Ordinal, Limit: a.Type + "/" + l.ID, Window: l.Window, Count: l.Count}
		scope := []canonical.Value{text(scopeFormat)}
		for _, pointer := range l.Per {
			value, _ := s.Action.Pointer(pointer)
			scope = append(scope, value)
		}
		draws[i].Scope = sha256.Sum256(canonical.NewArray(scope...).AppendCanonical(nil))
		if l.Amount == nil {
			continue
		}
		amount, _ := s.Action.Pointer(l.Amount.Pointer)
		draws[i].Max, draws[i].Amount = l.Amount.Max, strings.TrimSpace(amount.Text())
		if kind := amount.Kind(); kind != canonical.Number && kind != canonical.String || !config.PlainDecimal(draws[i].Amount) {
			return nil, fmt.Errorf("limit %s adds up %s, which is no plain decimal here", l.ID, l.Amount.Pointer)
		}
		if strings.HasPrefix(draws[i].Amount, "-") {
			return nil, fmt.Errorf("limit %s adds up %s, which is below zero here", l.ID, l.Amount.Pointer)
		}
	}
	return draws, nil
}
