package sandbox

import (
	"fmt"
	"net/http"
)

// problem is an error answer: a status, a code that programs read, and a message that people read.
type problem struct {
	status  int
	code    string
	message string
}

type problemView struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (p *problem) view() problemView {
	var view problemView
	view.Error.Code, view.Error.Message = p.code, p.message
	return view
}

// dialects are the error bodies of systems that have another one than problemView.
var dialects = map[string]func(*problem) any{HubSpot: hubspotError, Slack: slackError, N8N: n8nError}

func badRequest(format string, args ...any) *problem {
	return &problem{http.StatusBadRequest, "bad_request", fmt.Sprintf(format, args...)}
}

func invalid(code, format string, args ...any) *problem {
	return &problem{http.StatusUnprocessableEntity, code, fmt.Sprintf(format, args...)}
}

func notFound(what string) *problem {
	return &problem{http.StatusNotFound, "not_found", "there is no such " + what}
}

// unavailable is the answer when the ledger itself fails: whether the write is there is then not known.
func unavailable(err error) *problem {
	return &problem{http.StatusInternalServerError, "ledger_unavailable", err.Error()}
}
