package intake

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// Bounds of a search.
const (
	usualPage   = 50
	largestPage = 200
	searchDays  = 31
)

// search lists runs, the newest first (K12).
func (d *httpDoor) search(_ http.ResponseWriter, r *http.Request, c *caller) reply {
	wanted, problem := readSearch(c.tenant.ID, r.URL.Query())
	if problem != nil {
		return refuse(problem)
	}
	runs, err := d.in.env.Ledger.Search(r.Context(), *wanted)
	if err != nil {
		return d.in.failure(err)
	}
	list := &contracts.RunList{Runs: make([]contracts.RunSummary, 0, len(runs))}
	for i := range runs {
		list.Runs = append(list.Runs, contracts.RunSummary{Answer: *d.in.describe(&runs[i].Run, statusOf(&runs[i].Run), uuid.Nil),
			Source: runs[i].Run.Source, CorrelationID: runs[i].Run.CorrelationID, CreatedAt: runs[i].CreatedAt})
	}
	if len(runs) == wanted.Limit {
		last := runs[len(runs)-1]
		list.Next = last.CreatedAt.UTC().Format(time.RFC3339Nano) + "," + last.Run.RunID.String()
	}
	return reply{status: http.StatusOK, contentType: plainJSON, body: list, result: contracts.ResultAccepted}
}

var searchParameters = []string{"correlation_id", "state", "since", "limit", "after"}

func readSearch(tenant string, query url.Values) (*ledger.Search, *contracts.Problem) {
	bad := func(format string, args ...any) (*ledger.Search, *contracts.Problem) {
		return nil, newProblemf(contracts.CodeBadQuery, format, args...)
	}
	for name, values := range query {
		if !slices.Contains(searchParameters, name) || len(values) != 1 {
			return bad("%q is not known here or is there twice; known: %v.", name, searchParameters)
		}
	}
	if text := query.Get("correlation_id"); len(text) > maxKeyBytes || sound(text) != text {
		return bad("correlation_id is text in UTF-8 of at most %d bytes.", maxKeyBytes)
	}
	s := &ledger.Search{TenantID: tenant, CorrelationID: query.Get("correlation_id"), State: query.Get("state"),
		Limit: usualPage, Since: time.Now().AddDate(0, 0, -1)}
	if s.State != "" && !slices.Contains(ledger.States(ledger.RunRecord), s.State) {
		return bad("state is one of %v.", ledger.States(ledger.RunRecord))
	}
	if s.CorrelationID == "" && s.State == "" {
		return bad("Say what to look for: correlation_id or state.")
	}
	if s.CorrelationID != "" {
		s.Since = time.Time{}
	}
	if text := query.Get("since"); text != "" {
		since, err := time.Parse(time.RFC3339, text)
		if err != nil || s.CorrelationID == "" && time.Since(since) > searchDays*24*time.Hour {
			return bad("since is a moment such as 2026-11-30T03:00:00Z, at most %d days ago.", searchDays)
		}
		s.Since = since
	}
	if text := query.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 || limit > largestPage {
			return bad("limit is a number from 1 to %d.", largestPage)
		}
		s.Limit = limit
	}
	if text := query.Get("after"); text != "" {
		if err := s.After(text); err != nil {
			return bad("after is the next of an earlier answer.")
		}
	}
	return s, nil
}
