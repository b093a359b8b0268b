package config

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// promptsDir holds the prompts of a tenant's proposers.
const promptsDir = "prompts"

var (
	named = shape{regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$`),
		"1 to 128 letters, digits and . _ : / @ + -, beginning with a letter or digit"}
	promptFile = shape{regexp.MustCompile(`^[a-z0-9-]{1,48}\.tmpl$`), "1 to 48 of a-z, 0-9 and -, then .tmpl"}
)

// Longest values that the proposal's schema takes, in bytes.
const maxProposalName = 128

// readDraft reads what the drafter is shown and what it may not choose.
func readDraft(o *object) Draft {
	var p Draft
	p.ActionTypes = o.texts("action_types", nil)
	p.WorkflowVersion = o.text("workflow_version")
	if len(p.ActionTypes) == 0 {
		o.fail("action_types", "must list at least one action type that may be proposed")
	}
	p.Records = readRecords(o)
	p.Evidence = readDraftEvidence(o)
	target := o.needObject("target")
	p.Target = TargetRule{System: target.name("system"), RecordID: target.needPointer("record_id")}
	target.close()
	p.CurrentVersion = o.pointer("current_version")
	p.Fixed = readFixed(o)
	return p
}

func readRecords(o *object) []RecordRule {
	var records []RecordRule
	seen := map[string]Position{}
	for _, part := range o.objects("records") {
		r := RecordRule{Name: part.id("name", word), Pointer: part.needPointer("pointer"), Optional: part.optFlag("optional")}
		unique(seen, part, "name", r.Name)
		part.close()
		records = append(records, r)
	}
	if len(records) == 0 {
		o.fail("records", "must list at least one part of the event that is shown")
	}
	return records
}

// readDraftEvidence takes an item's version from the event, or from the content of a record that the model is shown
// (M1).
func readDraftEvidence(o *object) []CitationRule {
	var rules []CitationRule
	for _, part := range o.objects("evidence") {
		r := CitationRule{Source: part.name("source"), Version: part.pointer("version"), Record: part.optText("record"),
			ObservedAt: part.needPointer("observed_at"), URL: part.pointer("url")}
		if (r.Version == "") == (r.Record == "") {
			part.problems.add(part.pos, "evidence must have exactly one of version, a pointer to the record's version in the "+
				"event, and record, the name of the record whose hash serves")
		}
		part.close()
		rules = append(rules, r)
	}
	return rules
}

// readFixed reads which members of the change come from the event.
func readFixed(o *object) []FixedRule {
	part := o.object("fixed")
	if part == nil {
		return nil
	}
	var rules []FixedRule
	for _, m := range part.members {
		rules = append(rules, FixedRule{Member: m.name, Pointer: part.needPointer(m.name)})
	}
	return rules
}

// readPrompt checks that the template can be used and shows the model the records.
func (d *declared) readPrompt(o *object) Prompt {
	name := o.id("prompt", promptFile)
	if !promptFile.pattern.MatchString(name) {
		return Prompt{}
	}
	file := path.Join(d.folder, promptsDir, name)
	text := d.loader.read(file, o.at("prompt"))
	if text == nil {
		return Prompt{}
	}
	p := Prompt{Name: strings.TrimSuffix(name, ".tmpl"), Text: string(text)}
	const sample = `{"sample":"of the records"}`
	shown, err := p.Render(sample)
	switch {
	case err != nil:
		d.loader.add(Position{file, templateLine(err), 1}, "%v; it is a Go text/template that may use {{.Records}} alone",
			err)
	case !strings.Contains(shown, sample):
		d.loader.add(Position{file, 1, 1}, "must have {{.Records}} where the model is to see the records of the event")
	}
	return p
}

var templatePlace = regexp.MustCompile(`^template: [^:]+:(\d+):`)

// templateLine is where the template is wrong, as its error says it.
func templateLine(err error) int {
	if found := templatePlace.FindStringSubmatch(err.Error()); found != nil {
		line, _ := strconv.Atoi(found[1])
		return line
	}
	return 1
}

// Render puts the records, as JSON text, into the template.
func (p Prompt) Render(records string) (string, error) {
	parsed, err := template.New(p.Name).Option("missingkey=error").Parse(p.Text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = parsed.Execute(&b, struct{ Records string }{records})
	return b.String(), err
}

// needPointer is a required JSON pointer.
func (o *object) needPointer(name string) string {
	if o.take(name) == nil {
		o.fail(name, "is missing; it must be a JSON pointer such as /customer/id")
	}
	return o.pointer(name)
}

// name is a required text that a proposal can carry as a name.
func (o *object) name(name string) string {
	text := o.text(name)
	if len(text) > maxProposalName {
		o.fail(name, "has %d bytes; at most %d are allowed", len(text), maxProposalName)
	}
	return text
}

// Draft is what the proposals of a source are made of, or nil where they come with its events or from other workers.
func (s *Source) Draft() *Draft {
	switch {
	case s.Proposer != nil:
		return &s.Proposer.Draft
	case s.Agent != nil:
		return &s.Agent.Draft
	}
	return nil
}

// checkDraft holds a draft to what is declared elsewhere: in the tenant's other files, and among its own records.
func (d *declared) checkDraft(p *Draft) {
	place := d.places[p]
	for _, kind := range p.ActionTypes {
		a := d.Action(kind)
		if a == nil {
			place.fail("action_types", "has %s, which actions.yaml does not register, allowed: %s", quote(kind),
				names(d.Actions, func(a *Action) string { return a.Type }))
			continue
		}
		for _, f := range p.Fixed {
			if !a.declares(f.Member) {
				place.fail("fixed", "has %s, which the schema of %s does not have among its properties", quote(f.Member), kind)
			}
		}
	}
	for _, e := range p.Evidence {
		if e.Record != "" && !slices.ContainsFunc(p.Records, func(r RecordRule) bool { return r.Name == e.Record }) {
			place.fail("evidence", "has the record %s, which is not among the records, allowed: %s", quote(e.Record),
				names(p.Records, func(r RecordRule) string { return r.Name }))
		}
	}
	if p.WorkflowVersion != "" && !slices.Contains(d.WorkflowVersions, p.WorkflowVersion) {
		place.fail("workflow_version", "is %s, which tenant.yaml does not declare, allowed: %s", quote(p.WorkflowVersion),
			names(d.WorkflowVersions, func(v string) string { return v }))
	}
}

// declares reports whether the schema has a property of that name at its top.
func (a *Action) declares(member string) bool {
	schema, err := canonical.Parse(a.Schema)
	if err != nil {
		return true // reported
	}
	properties, _ := schema.Get("properties")
	_, found := properties.Get(member)
	return found
}
