package config

import "time"

// Escalation lets more people decide where nobody did in time, or where nobody could be told (A12).
type Escalation struct {
	Before time.Duration // how long before the decide-by
	To     []string      // roles that may decide from then on, besides the audience
}

// readReminder fills in when those who may decide are reminded, and reads who else may decide later. Both are times before the
// decide-by.
func readReminder(part *object, rule *ReviewRule, within time.Duration) {
	rule.RemindBefore = within / 4
	if part == nil {
		return
	}
	rule.RemindBefore = part.duration("remind_before", max(within/4, 1))
	if within > 0 && part.take("remind_before") != nil && rule.RemindBefore >= within {
		part.fail("remind_before", "is %s, which must be shorter than decide_within, %s: nobody could be reminded", rule.RemindBefore, within)
	}
	escalate := part.object("escalate")
	if escalate == nil {
		return
	}
	rule.Escalation = &Escalation{Before: escalate.duration("before", 0), To: escalate.texts("to", nil)}
	if len(rule.Escalation.To) == 0 {
		escalate.fail("to", "must list at least one role that may decide then")
	}
	if within > 0 && rule.Escalation.Before >= within {
		escalate.fail("before", "is %s, which must be shorter than decide_within, %s: it would escalate before anybody could decide",
			rule.Escalation.Before, within)
	}
	escalate.close()
}
