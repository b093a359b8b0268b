package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// templateRoots are the parts of an approved intent that a template may take values from.
var templateRoots = []string{"proposed_change", "target", "current_version", "operation_id", "idempotency_key",
	"tenant_id", "correlation_id"}

// deepRoots hold members; the others are single values.
var deepRoots = []string{"proposed_change", "target"}

var placeholder = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// path is a required template that begins with a slash.
func (o *object) path(name string) string {
	text := o.text(name)
	o.checkTemplate(o.at(name), name, text)
	if text != "" && !strings.HasPrefix(text, "/") {
		o.fail(name, "must begin with / (it is added to base_url), found %s", quote(text))
	}
	return text
}

// checkTemplate finds what would fail only when an effect is about to be sent.
func (o *object) checkTemplate(at Position, name, text string) {
	for rest := text; ; {
		start := strings.Index(rest, "${")
		if start < 0 {
			return
		}
		inner, after, closed := strings.Cut(rest[start+2:], "}")
		if !closed {
			o.problems.add(at, "%s has ${ without } in %s", name, quote(text))
			return
		}
		if err := checkPlaceholder(inner); err != nil {
			o.problems.add(at, "%s: %v", name, err)
		}
		rest = after
	}
}

func checkPlaceholder(inner string) error {
	root, member, deep := strings.Cut(inner, ".")
	switch {
	case !placeholder.MatchString(inner) || !slices.Contains(templateRoots, root):
		return fmt.Errorf("${%s} names nothing of an intent, allowed: %s", inner, strings.Join(templateRoots, ", "))
	case deep && !slices.Contains(deepRoots, root):
		return fmt.Errorf("${%s}: %s is a single value without members", inner, root)
	case root == "target" && deep && member != "system" && member != "record_id":
		return fmt.Errorf("${%s}: target has the members system and record_id", inner)
	}
	return nil
}
