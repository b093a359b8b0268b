package ledger

import "encoding/json"

// actor is who made the ruling.
func (r *ruling) actor() string {
	switch {
	case r.vote != nil:
		return r.vote.Reviewer.ID
	case r.withdrawal != nil:
		return r.withdrawal.By
	}
	return Approval
}

// auditMove is the move, or "vote" where the quorum is short.
func (r *ruling) auditMove() string {
	if r.move == "" {
		return "vote"
	}
	return r.move
}

func (r *ruling) auditTo() string {
	if r.move == "" {
		return RunAwaitingHuman
	}
	return r.runMove().To
}

// detail says what was decided on and by what authority, for whoever asks later (A4, O1).
func (r *ruling) detail() string {
	detail := map[string]any{"approval_id": r.ApprovalID, "intent_hash": r.locked.intentHash.String()}
	if v := r.vote; v != nil {
		detail["decision"], detail["reason"], detail["channel"] = v.Decision, v.Reason, v.Channel
		detail["issuer"], detail["subject"] = v.Reviewer.Issuer, v.Reviewer.Subject
		detail["votes"], detail["quorum"] = len(r.locked.votes)+1, r.answer.Quorum
		detail["roles"] = v.Reviewer.Roles
		if v.Decision == BreakGlass {
			detail["review_by"] = r.locked.now.Add(v.Glass.ReviewWithin)
		}
		if p := v.Reviewer.For; p != nil {
			detail["for"] = map[string]string{"id": p.ID, "issuer": p.Issuer, "subject": p.Subject}
		}
	}
	if w := r.withdrawal; w != nil {
		detail["reason"] = w.Reason
	}
	text, _ := json.Marshal(detail) // strings and numbers always marshal
	return string(text)
}
