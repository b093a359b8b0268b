package intake

import (
	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// correction is what an event says of the earlier event that it mends, or nil where it mends none (K10). It stands in the
// body, so the payload's hash covers it. Who makes it must be somebody whom the tenant knows: that person cannot approve it
// (A5).
func (t *tenant) correction(s *source, d *delivery, key string) (*ledger.Correction, *contracts.Problem) {
	if s.Corrects == "" {
		return nil, nil
	}
	body, given := d.body.Pointer(s.Corrects)
	if !given || body.IsNull() {
		return nil, nil
	}
	if body.Kind() != canonical.Object {
		return nil, invalid([]contracts.FieldError{{Pointer: s.Corrects, Detail: "must be an object of key, by and reason"}}, "")
	}
	c := &ledger.Correction{Key: textOf(body, "key"), By: textOf(body, "by"), Reason: textOf(body, "reason")}
	if errs := t.wrongWith(c, key); len(errs) > 0 {
		return nil, invalid(errs, s.Corrects)
	}
	return c, nil
}

func (t *tenant) wrongWith(c *ledger.Correction, key string) (errs []contracts.FieldError) {
	wrong := func(member, detail string) {
		errs = append(errs, contracts.FieldError{Pointer: "/" + member, Detail: detail})
	}
	switch {
	case c.Key == "" || len(c.Key) > maxKeyBytes:
		wrong("key", "must be the idempotency key of the event that is corrected")
	case c.Key == key:
		wrong("key", "is the correction's own key; a correction has a key of its own")
	}
	switch {
	case c.By == "" || len(c.By) > longestName:
		wrong("by", "must name who answers for the correction")
	case len(t.People) > 0 && t.PersonByAlias(c.By) == nil:
		wrong("by", "is nobody whom the tenant knows; people.yaml says who is")
	}
	if c.Reason == "" || len(c.Reason) > maxReasonBytes {
		wrong("reason", "must say why, in 1 to 2000 bytes")
	}
	return errs
}
