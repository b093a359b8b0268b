package config

// readAgent is nil where the source has no such block. The mode and the lease of the source are read before.
func (d *declared) readAgent(o *object, s *Source) *Agent {
	part := o.object("agent")
	if part == nil {
		return nil
	}
	o.forWorkers("agent", s)
	if s.Proposer != nil {
		o.fail("agent", "and proposer are both set; one of them drafts the proposals of a source")
	}
	a := &Agent{
		Webhook:       d.readWebhook(part.needObject("webhook")),
		ProviderClass: part.id("provider_class", named),
		Model:         part.id("model", named),
		Revision:      part.optID("revision", named),
		MaxInputBytes: part.number("max_input_bytes", defaultModelInput, 1, largestMaxBytes),
		Concurrency:   part.number("concurrency", defaultModelCalls, 1, 100),
	}
	a.Timeout, a.TotalTime = readDraftTimes(part, s.Lease)
	a.Draft = readDraft(part)
	part.close()
	d.places[&a.Draft] = part
	return a
}
