package approval

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// runPath is the page of a run, whether anybody was ever asked about it or not.
const runPath = "/runs/"

// runView is what the page of a run says: the same as `holdpoint explain`, in one order (O1).
type runView struct {
	Eye    *eye
	Tenant string
	Zone   *time.Location
	Run    struct {
		ID            uuid.UUID `json:"run_id"`
		Key           string    `json:"idempotency_key"`
		CorrelationID string    `json:"correlation_id"`
		Source        string    `json:"source"`
		RequestedBy   string    `json:"requested_by"`
		SentBy        string    `json:"sent_by"`
		State         string    `json:"state"`
		Outcome       string    `json:"outcome"`
		OutcomeReason string    `json:"outcome_reason"`
		CreatedAt     time.Time `json:"created_at"`
	} `json:"run"`
	Approvals []runApproval `json:"approvals"`
	Steps     []step        `json:"-"`
}

type runApproval struct {
	ID          uuid.UUID `json:"approval_id"`
	State       string    `json:"state"`
	Audience    []string  `json:"audience"`
	RequestedAt time.Time `json:"requested_at"`
}

// When is an exact time in UTC, and in the tenant's zone where it has one.
func (v *runView) When(at time.Time) template.HTML { return inZone(at, v.Zone) }

// runPage shows what has happened to a run. To whoever may not see it, there is none.
func (w *web) runPage(r *http.Request, who *identity) *reply {
	t := w.a.tenant(r.PathValue("tenant"))
	id, err := uuid.Parse(r.PathValue("run"))
	if t == nil || err != nil {
		return notFound()
	}
	explained, err := w.a.env.Ledger.Explain(r.Context(), t.ID, id)
	if errors.Is(err, ledger.ErrNoSuchRun) {
		return notFound()
	}
	if err != nil {
		return w.failure(err)
	}
	v := &runView{Eye: &eye{Full: r.URL.Query().Get("full") == "1"}, Tenant: t.DisplayName, Zone: t.TimeZone}
	if err := json.Unmarshal(explained, v); err != nil {
		return w.failure(fmt.Errorf("read the record of run %s: %w", id, err))
	}
	if !t.seesRun(who, v) {
		return notFound()
	}
	steps, err := ledger.Timeline(explained)
	if err != nil {
		return w.failure(err)
	}
	v.Steps = stepsOf(steps)
	return &reply{Status: http.StatusOK, title: "Run", name: "run", data: v, eye: v.Eye}
}

// seesRun reports whether a person may see a run: operators, whoever asked, and who may see one of its requests.
func (t *tenant) seesRun(who *identity, v *runView) bool {
	if who.disabled(t) {
		return false
	}
	return who.holds(t, []string{roleOperator}) || who.is(t, v.Run.RequestedBy) ||
		slices.ContainsFunc(v.Approvals, func(a runApproval) bool {
			return who.holds(t, a.Audience) || t.actsFor(who, a.Audience, time.Now()) // a card says by the database's clock
		})
}
