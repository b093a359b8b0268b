package approval

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// pageFuncs are what templates say times with.
var pageFuncs = template.FuncMap{
	"utc":   utc,
	"span":  span,
	"until": until,
	"since": func(now, then time.Time) string { return since(now, then) },
	"human": human,
	"made":  made,

	"postcondition": postcondition,
}

// postcondition says what a target was found to hold after a write that its provider says was done (R7).
func postcondition(found string) string {
	switch found {
	case ledger.PostconditionMatched:
		return "The target was read afterwards and holds what was written."
	case ledger.PostconditionDiffers:
		return "The target was read afterwards and does not hold what was written. An operator looks at it."
	case ledger.PostconditionMovedOn:
		return "The target was read afterwards: somebody else has changed it since."
	case ledger.PostconditionUnread:
		return "The target could not be read afterwards."
	}
	return human(found)
}

// utc is an exact time with its zone.
func utc(t time.Time) template.HTML {
	if t.IsZero() {
		return "not said"
	}
	t = t.UTC()
	words := t.Format("Mon 2 Jan 2006 15:04:05") + " UTC"
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `">` + words + `</time>`) //nolint:gosec // a time
}

// inZone is utc with the time of the zone besides, where there is one.
func inZone(t time.Time, zone *time.Location) template.HTML {
	if t.IsZero() || zone == nil {
		return utc(t)
	}
	const layout = "15:04:05"
	local := t.In(zone)
	words := local.Format(layout) + " " + zone.String()
	if local.YearDay() != t.UTC().YearDay() {
		words = local.Format("Mon 2 Jan "+layout) + " " + zone.String()
	}
	return utc(t) + template.HTML(" ("+template.HTMLEscapeString(words)+")") //nolint:gosec // a time and the name of a zone
}

// span is a duration in words, by its two largest units.
func span(d time.Duration) string {
	if d < time.Second {
		return "less than a second"
	}
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}}
	var words []string
	for _, u := range units {
		n := d / u.size
		d -= n * u.size
		if n == 0 && len(words) > 0 {
			break
		}
		if n > 0 {
			words = append(words, plural(int(n), u.name))
		}
		if len(words) == 2 {
			break
		}
	}
	return strings.Join(words, " ")
}

func plural(n int, name string) string {
	if n == 1 {
		return "1 " + name
	}
	return fmt.Sprintf("%d %ss", n, name)
}

// until is the time left.
func until(now, then time.Time) string {
	if then.After(now) {
		return span(then.Sub(now)) + " left"
	}
	return "over since " + span(now.Sub(then))
}

// since is an age.
func since(now, then time.Time) string {
	switch {
	case then.IsZero():
		return "age not known"
	case then.After(now):
		return "in the future: " + span(then.Sub(now)) + " from now"
	}
	return span(now.Sub(then)) + " old"
}

// made is a decision as people read it.
func made(decision string) string {
	if decision == ledger.BreakGlass {
		return "approved alone (break-glass)"
	}
	return decision
}

// human is a word of the ledger as people read it.
func human(name string) string { return strings.ReplaceAll(name, "_", " ") }
