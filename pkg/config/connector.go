package config

import (
	"cmp"
	"net/url"
	"strings"
	"time"
)

// Defaults of a connector. With them an effect is tried, if the provider is down throughout:
//
//	attempt      1    2    3    4    5    6     7     8
//	waits up to  -    1s   2s   4s   8s   16s   32s   1m
//	total up to  0    1s   3s   7s   15s  31s   63s   123s
//
// which rides out a restart or a deployment of the provider; a longer outage holds the effect for an operator.
const (
	defaultConcurrency = 16
	defaultTimeout     = 10 * time.Second
	defaultReport      = 30 * time.Second // of an executor
	defaultLeave       = 30 * time.Second
	defaultMaxResponse = 1 << 20
	defaultBase        = time.Second
	defaultCap         = time.Minute
	defaultAttempts    = 8
	defaultTotal       = 15 * time.Minute
	defaultFailures    = 5
	defaultOpenFor     = 30 * time.Second
)

func (d *declared) readConnectors(o *object) {
	seen := map[string]Position{}
	for _, part := range o.objects("connectors") {
		part = d.withProfile(part)
		c := &Connector{
			ID:          part.id("id", slug),
			Profile:     part.optText("profile"),
			Kind:        cmp.Or(part.oneOf("kind", ConnectorHTTP, ConnectorExecutor, ConnectorSMTP, ""), ConnectorHTTP),
			Concurrency: part.number("concurrency", defaultConcurrency, 1, 10_000),
			Rate:        readRateLimit(part, "rate"),
			Breaker:     readBreaker(part),
			Backoff:     readBackoff(part),

			ChecksGoodFor: readGoodFor(part),
		}
		switch c.Kind {
		case ConnectorExecutor:
			readExecutor(part, c)
		case ConnectorSMTP:
			d.readMailer(part, c)
		default:
			d.readHTTP(part, c)
		}
		unique(seen, part, "id", c.ID)
		part.close()
		d.places[c] = part
		d.Connectors = append(d.Connectors, c)
	}
}

// readHTTP reads how a system is called.
func (d *declared) readHTTP(part *object, c *Connector) {
	c.BaseURL = strings.TrimSuffix(d.loader.expand(part, "base_url", part.text("base_url")), "/")
	d.readCredential(part, c)
	c.Timeout = part.duration("timeout", defaultTimeout)
	c.MaxResponse = int64(part.number("max_response", defaultMaxResponse, 1, 64<<20))
	c.AllowedHosts = d.hosts(part, "base_url", checkBaseURL(part, c.BaseURL))
	c.CAFile = part.optText("ca_file")
	part.refuse("is for kind executor; this connector's kind is http", "leave_within")
	part.refuse("is for kind smtp; this connector's kind is http", ofMailAlone...)
	c.Webhook = readProviderWebhook(part)
	c.Operations = readOperations(part, readOperation)
}

// checkBaseURL is nil, and a problem, where the text cannot be what paths are added to.
func checkBaseURL(o *object, text string) *url.URL {
	base := absoluteURL(o, "base_url", text)
	if base != nil && (base.User != nil || base.RawQuery != "" || base.Fragment != "") {
		o.fail("base_url", "must have no user, query or fragment; a credential has settings of its own")
		return nil
	}
	return base
}

func readBreaker(o *object) Breaker {
	part := o.object("breaker")
	if part == nil {
		return Breaker{defaultFailures, defaultOpenFor}
	}
	b := Breaker{part.number("failures", defaultFailures, 0, 1000), part.duration("open_for", defaultOpenFor)}
	part.close()
	return b
}

func readBackoff(o *object) Backoff {
	part := o.object("backoff")
	if part == nil {
		return Backoff{defaultBase, defaultCap, defaultAttempts, defaultTotal}
	}
	b := Backoff{
		Base:     part.duration("base", defaultBase),
		Cap:      part.duration("cap", defaultCap),
		Attempts: part.number("attempts", defaultAttempts, 1, 1000),
		Total:    part.duration("total", defaultTotal),
	}
	if b.Base > b.Cap {
		part.fail("base", "is %s, which must not be longer than cap, %s", b.Base, b.Cap)
	}
	part.close()
	return b
}
