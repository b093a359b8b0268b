package fault

import (
	"fmt"
	"slices"
	"sync"
)

// Kind is what a boundary stands around.
type Kind string

// The kinds of boundaries.
const (
	KindCommit         Kind = "commit"          // a database commit
	KindPublish        Kind = "publish"         // a broker publish
	KindAck            Kind = "ack"             // the acknowledgement of a broker message
	KindProviderSend   Kind = "provider_send"   // the first byte of a request to a provider
	KindProviderAnswer Kind = "provider_answer" // what a provider answered, before it is stored
)

// Site is one crash boundary of one service.
type Site struct {
	Service string
	Name    string
	Kind    Kind
}

// String is the site's name in a Spec: service/site.
func (s *Site) String() string { return s.Service + "/" + s.Name }

var (
	mu    sync.Mutex
	sites []*Site
)

// NewSite registers a boundary. Registering the same one again, as a part that exists once per tenant does, gives the
// same site; giving it another kind is a mistake of the programmer and panics.
func NewSite(service, name string, kind Kind) *Site {
	if !plain(service) || !plain(name) {
		panic(fmt.Sprintf("fault: site %q/%q: both names must be of letters, digits, '-', '_' and '.'", service, name))
	}
	mu.Lock()
	defer mu.Unlock()
	for _, known := range sites {
		if known.Service == service && known.Name == name {
			if known.Kind != kind {
				panic(fmt.Sprintf("fault: site %s is registered as %s and as %s", known, known.Kind, kind))
			}
			return known
		}
	}
	site := &Site{Service: service, Name: name, Kind: kind}
	sites = append(sites, site)
	return site
}

// Sites lists what is registered, in the order of registration. Normal builds keep the list too.
func Sites() []*Site {
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(sites)
}

// plain reports whether a name can stand in a Spec without quoting.
func plain(name string) bool {
	for _, r := range name {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && !('0' <= r && r <= '9') && r != '-' && r != '_' && r != '.' {
			return false
		}
	}
	return name != ""
}
