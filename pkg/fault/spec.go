package fault

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Side is on which side of a boundary to crash.
type Side string

// The sides.
const (
	Before Side = "before" // SIGKILL just before
	After  Side = "after"  // SIGKILL just after
	Mid    Side = "mid"    // just before, have the harness cut the connection, and go on
)

// Spec chooses one crash. Its text form, the value of HOLDPOINT_CRASH, is
//
//	service/site@before|after|mid[#occurrence][?key=RUNKEY]
//
// with the run key escaped as in a URL's query.
type Spec struct {
	Service, Site string
	Side          Side
	// Occurrence counts, from 1, the times that the place is reached (with the key, if there is one). 0 means 1.
	Occurrence int
	// Key restricts the crash to batches that touch this run. Empty means any.
	Key string
}

// String is the text form.
func (s Spec) String() string {
	text := s.Service + "/" + s.Site + "@" + string(s.Side)
	if s.Occurrence > 1 {
		text += "#" + strconv.Itoa(s.Occurrence)
	}
	if s.Key != "" {
		text += "?key=" + url.QueryEscape(s.Key)
	}
	return text
}

// ParseSpec reads the text form.
func ParseSpec(text string) (Spec, error) {
	wrong := func(what string) (Spec, error) {
		return Spec{}, fmt.Errorf("crash %q: %s; want service/site@before|after|mid[#occurrence][?key=RUNKEY]",
			text, what)
	}
	place, key, hasKey := strings.Cut(text, "?key=")
	place, occurrence, hasOccurrence := strings.Cut(place, "#")
	name, side, _ := strings.Cut(place, "@")
	service, site, _ := strings.Cut(name, "/")
	spec := Spec{Service: service, Site: site, Side: Side(side), Occurrence: 1}
	if !plain(service) || !plain(site) {
		return wrong("the site is not named")
	}
	if spec.Side != Before && spec.Side != After && spec.Side != Mid {
		return wrong("the side is wrong")
	}
	var err error
	if hasOccurrence {
		if spec.Occurrence, err = strconv.Atoi(occurrence); err != nil || spec.Occurrence < 1 {
			return wrong("the occurrence is not a positive number")
		}
	}
	if spec.Key, err = url.QueryUnescape(key); err != nil || hasKey && key == "" {
		return wrong("the key is empty or badly escaped")
	}
	return spec, nil
}
