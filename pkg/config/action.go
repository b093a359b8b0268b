package config

import "time"

// Closed lists of an action's declaration.
var (
	risks      = []string{RiskLow, RiskMedium, RiskHigh}
	categories = []string{"", "customer_message", CategoryPayment, "discount", "account_change", "crm_change", "deletion",
		"publication", "access_right"}
	professions = []string{"medical", "legal", "regulated_finance", "child_safety", "structural"}
)

// CategoryPayment is the sensitivity category of payments and refunds, which P6 names.
const CategoryPayment = "payment"

func (d *declared) readActions(o *object) {
	seen := map[string]Position{}
	for _, part := range o.objects("actions") {
		a := &Action{
			Type:          part.id("type", dotted),
			Connector:     part.text("connector"),
			Operation:     part.text("operation"),
			Owner:         part.text("owner"),
			Risk:          part.oneOf("risk", risks...),
			Reversible:    part.flag("reversible"),
			Category:      part.oneOf("category", categories...),
			Shadow:        part.optFlag("shadow"),
			Profession:    part.oneOf("profession", append([]string{""}, professions...)...),
			Thresholds:    part.decimals("thresholds"),
			Audience:      part.texts("audience", nil),
			DecideWithin:  part.duration("decide_within", 0),
			ExecuteWithin: part.duration("execute_within", 0),
			Rejection:     part.text("rejection"),
			pos:           part.pos,
		}
		a.Schema = d.schema(part, true)
		a.Evidence = readEvidence(part)
		a.Review = d.readReview(part, a)
		a.NearDuplicate = readNearDuplicate(part)
		a.Limits = readLimits(part)
		a.Revisions = readRevisions(part)
		a.Card = readCard(part)
		a.Resolve = readResolve(part, a)
		if len(a.Audience) == 0 { // P9: a review that nobody may decide can only expire
			part.fail("audience", "must list at least one role that may decide")
		}
		unique(seen, part, "type", a.Type)
		part.close()
		d.places[a] = part
		d.Actions = append(d.Actions, a)
	}
}

// readNearDuplicate is nil where the action looks for none.
func readNearDuplicate(o *object) *NearDuplicate {
	part := o.object("near_duplicate")
	if part == nil {
		return nil
	}
	n := &NearDuplicate{Within: part.duration("within", 0), Ignore: part.pointers("ignore")}
	part.close()
	return n
}

// Bounds of how often a proposal is sent back: one better proposal by default, as of a model's invalid output (M3).
const (
	maxRounds      = 10
	defaultRounds  = 1
	defaultRevised = 24 * time.Hour
)

func readRevisions(o *object) Revisions {
	part := o.object("revisions")
	if part == nil {
		return Revisions{defaultRounds, defaultRevised}
	}
	r := Revisions{part.number("rounds", defaultRounds, 0, maxRounds), part.duration("within", defaultRevised)}
	part.close()
	return r
}

// Card says where an action's proposed_change has what a reviewer looks for first (A10): JSON pointers, "" where it has none.
type Card struct {
	Purpose      string // what it is for
	PayingEntity string // who pays
	Draft        string // what the model wrote
	Label        string // how the model has classified it
	Score        string // and how certain that is
}

func readCard(o *object) Card {
	part := o.object("card")
	if part == nil {
		return Card{}
	}
	c := Card{Purpose: part.pointer("purpose"), PayingEntity: part.pointer("paying_entity"), Draft: part.pointer("draft"),
		Label: part.pointer("label"), Score: part.pointer("score")}
	part.close()
	return c
}

func readEvidence(o *object) []EvidenceRule {
	var rules []EvidenceRule
	seen := map[string]Position{}
	for _, part := range o.objects("evidence") {
		r := EvidenceRule{Source: part.text("source"), MaxAge: part.duration("max_age", 0)}
		unique(seen, part, "source", r.Source)
		part.close()
		rules = append(rules, r)
	}
	return rules
}

func (d *declared) readRules(o *object) {
	d.readEvaluations(o)
	seen := map[string]Position{}
	for _, part := range o.objects("rules") {
		r := &Rule{
			ID:     part.id("id", slug),
			Action: part.text("action"),
			When:   part.text("when"),
			Route:  part.oneOf("route", RouteAuto, RouteHumanReview, RouteRepair, RouteReject),
			Reason: part.text("reason"),
			Window: part.optDuration("window"),
		}
		r.Exception = d.readException(part)
		r.Pos = part.at("when")
		r.places = part.placesOf("when", r.When, d.loader.files[r.Pos.File])
		unique(seen, part, "id", r.ID)
		part.close()
		d.places[r] = part
		d.Rules = append(d.Rules, r)
	}
}
