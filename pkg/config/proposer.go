package config

import (
	"strings"
	"time"
)

// Defaults of a proposer. A call that hangs is given up after a minute and made once more; with a repair and a short
// wait for a busy endpoint that is over within total_time, well inside the 15m for which a lease can be renewed.
const (
	defaultModelTimeout = time.Minute
	defaultModelTotal   = 4 * time.Minute
	defaultModelOutput  = 2_000
	defaultModelInput   = 64 << 10
	defaultModelTokens  = 100_000
	defaultModelCalls   = 4
	defaultRepair       = 1 // M3
	mostRepairs         = 3
)

// How an endpoint wants to be told the longest output. OpenAI's newer models know the second alone, most others the
// first alone.
const (
	OutputLimitTokens     = "max_tokens"
	OutputLimitCompletion = "max_completion_tokens"
)

// readProposer is nil where the source has no such block. The mode and the lease of the source are read before.
func (d *declared) readProposer(o *object, s *Source) *Proposer {
	part := o.object("proposer")
	if part == nil {
		return nil
	}
	o.forWorkers("proposer", s)
	p := &Proposer{
		BaseURL:       strings.TrimSuffix(d.loader.expand(part, "base_url", part.text("base_url")), "/"),
		APIKeyEnv:     d.loader.expand(part, "api_key_env", part.optText("api_key_env")),
		APIKeyFile:    d.loader.expand(part, "api_key_file", part.optText("api_key_file")),
		ProviderClass: part.id("provider_class", named),
		Model:         part.id("model", named),
		Revision:      part.optID("revision", named),
	}
	d.readModelAccess(part, p)
	readModelBounds(part, p, s.Lease)
	p.Draft = readDraft(part)
	p.Prompt = d.readPrompt(part)
	part.close()
	d.places[&p.Draft] = part
	return p
}

func (d *declared) readModelAccess(o *object, p *Proposer) {
	base := absoluteURL(o, "base_url", p.BaseURL)
	if base != nil && (base.User != nil || base.RawQuery != "" || base.Fragment != "") {
		o.fail("base_url", "must have no user, query or fragment; credentials go in api_key_env or api_key_file")
		base = nil
	}
	p.AllowedHosts = d.hosts(o, "base_url", base)
	o.check("api_key_env", p.APIKeyEnv, variable)
	keyed := p.APIKeyEnv != "" || p.APIKeyFile != ""
	if p.APIKeyEnv != "" && p.APIKeyFile != "" {
		o.fail("api_key_file", "and api_key_env are both set; an endpoint has one credential")
	}
	if keyed && base != nil && base.Scheme == "http" && !Loopback(base.Hostname()) { // D12
		o.fail("base_url", "is http to another machine, over which no API key may travel; use https, or leave out "+
			"api_key_env and api_key_file")
	}
}

func readModelBounds(o *object, p *Proposer, lease Lease) {
	p.Timeout, p.TotalTime = readDraftTimes(o, lease)
	p.Repair = o.number("repair", defaultRepair, 0, mostRepairs)
	p.MaxOutputTokens = o.number("max_output_tokens", defaultModelOutput, 1, 1_000_000)
	p.MaxInputBytes = o.number("max_input_bytes", defaultModelInput, 1, largestMaxBytes)
	p.MaxTokens = o.number("max_tokens_total", defaultModelTokens, 1, 100_000_000)
	p.Concurrency = o.number("concurrency", defaultModelCalls, 1, 100)
	p.Strict = o.optFlag("strict")
	p.OutputLimit = o.oneOf("output_limit", "", OutputLimitTokens, OutputLimitCompletion)
	if p.OutputLimit == "" {
		p.OutputLimit = OutputLimitTokens
	}
	if p.MaxOutputTokens > p.MaxTokens {
		o.fail("max_output_tokens", "is %d, which must not be more than max_tokens_total, %d", p.MaxOutputTokens,
			p.MaxTokens)
	}
}

// readDraftTimes holds one call to the time for all, and that to the time that a lease can last.
func readDraftTimes(o *object, lease Lease) (timeout, total time.Duration) {
	timeout, total = o.duration("timeout", defaultModelTimeout), o.duration("total_time", defaultModelTotal)
	if timeout > total {
		o.fail("timeout", "is %s, which must not be longer than total_time, %s", timeout, total)
	}
	if total >= lease.MaxLifetime { // else a draft could outlive the lease under which it is made (K7)
		o.fail("total_time", "is %s, which must be shorter than the lease's max_lifetime, %s", total, lease.MaxLifetime)
	}
	return timeout, total
}

// forWorkers refuses a block that drafts the proposals of a source whose events carry them.
func (o *object) forWorkers(block string, s *Source) {
	if s.Mode != ModeWorker && s.Mode != "" {
		o.fail(block, "is for mode %s; in mode %s the event carries its proposal", ModeWorker, ModeInline)
	}
}
