package approval

import (
	"context"
	"math/big"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// deskAlert is how often a tenant's old unknown effects are told of again.
const deskAlert = 15 * time.Minute

// gauged is one line of the desk's gauges: a kind or, of the amount at risk, a currency.
type gauged struct{ Tenant, Kind, Currency string }

// line is what a gauge says of a tenant and kind, or currency.
type line struct {
	count  int
	oldest time.Duration
	amount *big.Rat
}

// watchDesk measures how many effects nobody has settled, how old they are and what is at risk (R9), and alerts their owners of what has
// been unknown for too long. What is there no more is measured as zero.
func (a *Approval) watchDesk(ctx context.Context) (bool, error) {
	var f ledger.DeskFilter
	for id := range a.tenants {
		f.Scopes = append(f.Scopes, ledger.DeskScope{TenantID: id})
	}
	f.AcceptedFor = outcome.AcceptedDeadline
	sums, err := a.env.Ledger.DeskSums(ctx, f)
	if err != nil {
		return false, err
	}
	lines := map[gauged]*line{}
	for i := range sums {
		add(lines, gauged{Tenant: sums[i].TenantID, Kind: sums[i].Kind}, &sums[i])
		if sums[i].Currency != "" {
			add(lines, gauged{Tenant: sums[i].TenantID, Currency: sums[i].Currency}, &sums[i])
		}
	}
	for g := range a.deskShown {
		if lines[g] == nil {
			lines[g] = &line{amount: new(big.Rat)}
		}
	}
	for g, l := range lines {
		a.gauge(ctx, g, l)
	}
	return false, a.alertDesk(ctx, sums)
}

func add(lines map[gauged]*line, g gauged, s *ledger.DeskSum) {
	l := lines[g]
	if l == nil {
		l = &line{amount: new(big.Rat)}
		lines[g] = l
	}
	l.count += s.Count
	l.oldest = max(l.oldest, s.Now.Sub(s.Oldest))
	if amount, ok := new(big.Rat).SetString(s.Amount); ok {
		l.amount.Add(l.amount, amount)
	}
}

func (a *Approval) gauge(ctx context.Context, g gauged, l *line) {
	a.deskShown[g] = true
	tenant := attribute.String("tenant", g.Tenant)
	if g.Currency != "" {
		amount, _ := l.amount.Float64()
		a.atRisk.Record(ctx, amount, metric.WithAttributes(tenant, attribute.String("currency", g.Currency)))
		return
	}
	kind := metric.WithAttributes(tenant, attribute.String("kind", g.Kind))
	a.unsettled.Record(ctx, int64(l.count), kind)
	a.unsettledAge.Record(ctx, l.oldest.Seconds(), kind)
}

// alertDesk tells operators of tenants with effects that have been unknown for longer than their action type allows.
func (a *Approval) alertDesk(ctx context.Context, sums []ledger.DeskSum) error {
	late := map[string][]ledger.DeskSum{}
	for _, s := range sums {
		if s.Kind == ledger.EffectUnknown && s.Now.Sub(s.Oldest) > a.tenant(s.TenantID).alertAfter(s.ActionType) {
			late[s.TenantID] = append(late[s.TenantID], s)
		}
	}
	for id, sums := range late {
		if time.Since(a.deskAlerted[id]) < deskAlert {
			continue
		}
		if err := a.alertUnknown(ctx, id, sums); err != nil {
			return err
		}
		a.deskAlerted[id] = time.Now()
	}
	return nil
}

// alertAfter is how long an effect of a type may be unknown.
func (t *tenant) alertAfter(actionType string) time.Duration {
	if action := t.action(actionType); action != nil {
		return action.Resolve.AlertAfter
	}
	return deskAlert
}

func (a *Approval) alertUnknown(ctx context.Context, tenantID string, sums []ledger.DeskSum) error {
	t := a.tenant(tenantID)
	f := ledger.DeskFilter{Kind: ledger.EffectUnknown, Limit: 1}
	var owners []string
	count := 0
	for _, s := range sums {
		scope := ledger.DeskScope{TenantID: tenantID, ActionType: s.ActionType}
		if !slices.Contains(f.Scopes, scope) {
			f.Scopes = append(f.Scopes, scope)
		}
		if owner := t.ownerOf(s.ActionType); owner != "" && !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
		count += s.Count
	}
	oldest, err := a.env.Ledger.Desk(ctx, f)
	if err != nil || len(oldest) == 0 { // settled meanwhile
		return err
	}
	a.env.Log.Error("effects have been unknown for too long: somebody has to settle them", "tenant", tenantID,
		"owner", strings.Join(owners, ", "), "unknown", count, "oldest", oldest[0].OperationID(), "since", oldest[0].Since,
		"age", oldest[0].Now.Sub(oldest[0].Since).Round(time.Second), "at_risk", strings.Join(amountsOf(sums), ", "))
	return nil
}

// amountsOf adds up by currency: "250 EUR", sorted by the currency.
func amountsOf(sums []ledger.DeskSum) []string {
	totals := map[string]*big.Rat{}
	var currencies []string
	for _, s := range sums {
		amount, ok := new(big.Rat).SetString(s.Amount)
		if !ok {
			continue
		}
		if totals[s.Currency] == nil {
			totals[s.Currency] = new(big.Rat)
			currencies = append(currencies, s.Currency)
		}
		totals[s.Currency].Add(totals[s.Currency], amount)
	}
	slices.Sort(currencies)
	for i, currency := range currencies {
		currencies[i] = decimalOf(totals[currency]) + " " + currency
	}
	return currencies
}

// decimalOf is an exact decimal; sums of decimals of at most 18 places have no more.
func decimalOf(r *big.Rat) string {
	text := r.FloatString(18)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
