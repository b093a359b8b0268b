package sandbox

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// The drafter plays a language model behind an OpenAI-compatible endpoint: it reads what it is asked for a phone number and a
// city, and writes a change of a contact. It writes nothing down and takes no faults.
const maxModelBytes = 1 << 20

var (
	phoneIn = regexp.MustCompile(`\+[0-9][0-9 ]{6,19}[0-9]`)
	cityIn  = regexp.MustCompile(`(?i:moved to|lives in|city is|now in) ([A-Z][a-z]+)`)
)

type chatRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	var asked chatRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxModelBytes)).Decode(&asked); err != nil || len(asked.Messages) == 0 {
		answerJSON(w, http.StatusBadRequest, map[string]any{"error": map[string]any{"message": "messages are missing",
			"type": "invalid_request_error"}})
		return
	}
	var records strings.Builder
	for _, m := range asked.Messages {
		if m.Role == "user" {
			records.WriteString(m.Content + "\n")
		}
	}
	answerJSON(w, http.StatusOK, map[string]any{
		"id": "chatcmpl-sandbox", "object": "chat.completion", "created": time.Now().Unix(), "model": asked.Model,
		"system_fingerprint": "sandbox-drafter-1",
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop",
			"message": map[string]any{"role": "assistant", "content": drafted(records.String())}}},
		"usage": map[string]any{"prompt_tokens": records.Len() / 4, "completion_tokens": 40, "total_tokens": records.Len()/4 + 40},
	})
}

// drafted is what the drafter says about the records. Where they tell nothing it does not know better than to propose an empty
// change, which no schema takes: so it is asked again, and the run ends as invalid.
func drafted(records string) string {
	fields := map[string]string{}
	if phone := phoneIn.FindString(records); phone != "" {
		fields["phone"] = phone
	}
	if city := cityIn.FindStringSubmatch(records); city != nil {
		fields["city"] = city[1]
	}
	text, _ := json.Marshal(map[string]any{ // texts alone
		"proposal":    map[string]any{"action_type": "crm.contact.update", "proposed_change": map[string]any{"fields": fields}},
		"assumptions": []string{"What the note says is about this contact."}, "uncertainty": "low",
	})
	return string(text)
}

func answerJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // whoever asked is gone
}
