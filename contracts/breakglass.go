package contracts

import "time"

// GlassReview is an approval that one person gave alone (break-glass), and what somebody else said of it afterwards (A16).
type GlassReview struct {
	BrokenBy      string     `json:"broken_by"` // as ReviewerID of a Decision
	Reason        string     `json:"reason"`    // of whoever approved alone
	BrokenAt      time.Time  `json:"broken_at"`
	ReviewBy      time.Time  `json:"review_by"`
	Audience      []string   `json:"audience"`          // roles of which one may judge
	Verdict       string     `json:"verdict,omitempty"` // VerdictRight or VerdictWrong; left out while it waits, as are the rest
	ReviewerID    string     `json:"reviewer_id,omitempty"`
	VerdictReason string     `json:"verdict_reason,omitempty"`
	JudgedAt      *time.Time `json:"judged_at,omitempty"`
}

// BrokenGlass is a request that somebody approved alone and that waits for a verdict of somebody else.
type BrokenGlass struct {
	Approval
	BreakGlass GlassReview `json:"break_glass"`
}

// GlassJudgementRequest is the body of a verdict about an approval given alone (schemas/glass_judgement_request.v1.json).
type GlassJudgementRequest struct {
	Verdict string `json:"verdict"`          // VerdictRight or VerdictWrong
	Reason  string `json:"reason,omitempty"` // needed for VerdictWrong
}

// GlassJudgementAnswer says what stands (schemas/glass_judgement_answer.v1.json). With a conflict its members stand beside those of a
// Problem.
type GlassJudgementAnswer struct {
	ApprovalID string    `json:"approval_id"`
	Verdict    string    `json:"verdict"`
	ReviewerID string    `json:"reviewer_id"`
	JudgedAt   time.Time `json:"judged_at"`
}
