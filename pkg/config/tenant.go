package config

import (
	"net/url"
	"regexp"
	"time"
	_ "time/tzdata" // images and small machines have no zones of their own
)

// keyName finds the place of an API key, which has no address of its own.
type keyName string

func (d *declared) readTenant(o *object) {
	d.DisplayName = o.text("display_name")
	d.WorkflowVersions = o.texts("workflow_versions", func(at Position, text string) {
		if !workflow.pattern.MatchString(text) {
			o.problems.add(at, "workflow_versions: %s must be %s", quote(text), workflow.words)
		}
	})
	d.TimeZone = readTimeZone(o)
	d.ChecksGoodFor = goodForOf(o)
	d.RateLimit = readRateLimit(o, "rate_limit")
	d.readTokenIssuers(o)
	d.KillSwitch = d.readKillSwitch(o)
	d.Callbacks = d.readCallbacks(o)
	names, hashes := map[string]Position{}, map[string]Position{}
	for _, key := range o.objects("api_keys") {
		k := APIKey{Name: key.id("name", slug), SHA256: key.id("sha256", digest), Owner: key.optID("owner", slug)}
		k.Scopes = readScopes(key)
		unique(names, key, "name", k.Name)
		unique(hashes, key, "sha256", k.SHA256)
		key.close()
		d.places[keyName(k.Name)] = key
		d.APIKeys = append(d.APIKeys, k)
	}
}

// zone is what the IANA's time zones are called.
var zone = shape{regexp.MustCompile(`^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`), "the IANA's name of a time zone, such as Europe/Lisbon"}

// readTimeZone is nil where the tenant names none.
func readTimeZone(o *object) *time.Location {
	name := o.optID("time_zone", zone)
	if name == "" || !zone.pattern.MatchString(name) {
		return nil
	}
	place, err := time.LoadLocation(name)
	if err != nil || name == "Local" { // which is another one on each machine
		o.fail("time_zone", "is %s, which is no time zone of the IANA's, such as Europe/Lisbon", quote(name))
		return nil
	}
	return place
}

// readRateLimit is nil where there is no limit.
func readRateLimit(o *object, name string) *RateLimit {
	part := o.object(name)
	if part == nil {
		return nil
	}
	perSecond := part.number("per_second", 0, 1, 1_000_000)
	if part.take("per_second") == nil {
		part.fail("per_second", "is missing; it must be a whole number of requests")
	}
	l := &RateLimit{PerSecond: float64(perSecond), Burst: part.number("burst", perSecond, 1, 1_000_000)}
	part.close()
	return l
}

func readScopes(o *object) []string {
	scopes := o.texts("scopes", func(at Position, text string) {
		if text != ScopePublish && text != ScopeWork && text != ScopeRead {
			o.problems.add(at, "scopes: %s is no scope, allowed: %s, %s, %s", quote(text), ScopePublish, ScopeWork, ScopeRead)
		}
	})
	if len(scopes) == 0 {
		o.fail("scopes", "must list at least one of %s, %s, %s", ScopePublish, ScopeWork, ScopeRead)
	}
	return scopes
}

func (d *declared) readTokenIssuers(o *object) {
	for _, part := range o.objects("token_issuers") {
		i := TokenIssuer{Issuer: part.text("issuer"), Audience: part.text("audience"), Scopes: readScopes(part),
			Claims: readClaims(part)}
		if u, err := url.Parse(i.Issuer); i.Issuer != "" && (err != nil || u.Host == "" ||
			u.Scheme != "https" && (u.Scheme != "http" || !Loopback(u.Hostname()))) {
			part.fail("issuer", "is %s, which must be an https address, or http on this machine", quote(i.Issuer))
		}
		part.close()
		d.TokenIssuers = append(d.TokenIssuers, i)
	}
}

// readCallbacks is nil where the tenant has none.
func (d *declared) readCallbacks(o *object) *Callbacks {
	part := o.object("callbacks")
	if part == nil {
		return nil
	}
	c := &Callbacks{AllowedHosts: d.hosts(part, "", nil), Secret: d.readSecret(part), SecretEnv: part.optID("secret_env", variable),
		SecretFile: part.optText("secret_file"), Timeout: part.duration("timeout", defaultDelivery)}
	if len(c.AllowedHosts) == 0 {
		part.fail("allowed_hosts", "must list at least one host or host:port; events name addresses, and this says which are called")
	}
	for _, host := range c.AllowedHosts {
		if !isHost(host) {
			part.fail("allowed_hosts", "has %s, which must be host or host:port", quote(host))
		}
	}
	part.oneSecret("callbacks")
	part.close()
	return c
}
