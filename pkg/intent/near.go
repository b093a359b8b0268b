package intent

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// nearFormat names the rule by which two intents are nearly the same; it is part of what is hashed.
const nearFormat = "holdpoint-near-1"

// nearHash is alike for two intents of one action type and target that want nearly the same (K13): their changes are equal
// but for what the action's declaration ignores, and for letter case, spacing and forms of a letter in texts. Numbers
// count by their exact value. Nil where the type is not registered or asks for no such check.
func nearHash(a *config.Action, action canonical.Value) ([]byte, error) {
	if a == nil || a.NearDuplicate == nil {
		return nil, nil
	}
	fields, err := canonical.NewSelection(nil, a.NearDuplicate.Ignore)
	if err != nil {
		return nil, fmt.Errorf("fields that near duplicates of %s may differ in: %w", a.Type, err)
	}
	blurred, err := blur(fields.Apply(member(action, "proposed_change")))
	if err != nil {
		return nil, fmt.Errorf("compare with near duplicates: %w", err)
	}
	whole := canonical.NewArray(text(nearFormat), text(a.Type), member(action, "target"), blurred)
	sum := sha256.Sum256(whole.AppendCanonical(nil))
	return sum[:], nil
}

// Near is what the action wants as intents that want nearly the same have it too (K13); nil where its type asks for no such check.
func (s *Snapshot) Near(a *config.Action) ([]byte, error) { return nearHash(a, s.Action) }

// blur makes texts equal that a reader would take for the same.
func blur(v canonical.Value) (canonical.Value, error) {
	switch v.Kind() {
	case canonical.String:
		return canonical.NewString(blurText(v.Text()))
	case canonical.Array:
		var items []canonical.Value
		for item := range v.Items() {
			blurred, err := blur(item)
			if err != nil {
				return v, err
			}
			items = append(items, blurred)
		}
		return canonical.NewArray(items...), nil
	case canonical.Object:
		var members []canonical.Member
		for name, member := range v.Members() {
			blurred, err := blur(member)
			if err != nil {
				return v, err
			}
			members = append(members, canonical.Member{Name: name, Value: blurred})
		}
		return canonical.NewObject(members...)
	}
	return v, nil
}

func blurText(s string) string {
	return strings.Join(strings.Fields(cases.Fold().String(norm.NFKC.String(s))), " ")
}
