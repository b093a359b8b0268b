package bus

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Astray reports whether the broker itself put the message into a stream, at somebody's request, instead of a publisher
// who may publish under the prefix of subjects (B7). The broker checks what a tenant publishes on, not where the tenant
// asks it to answer or to deliver: a reply subject or a consumer's deliver_subject may name another tenant's ingress.
//
// What it delivers keeps the subject that it was published on. What it answers is of its own making: an acknowledgement
// with a stream of ours and a sequence, or a typed answer of its management interface. Neither has a header.
func (i *Item) Astray(prefix string) bool {
	if !strings.HasPrefix(i.Subject, prefix) {
		return true
	}
	if len(i.Header) > 0 || !bytes.Contains(i.Data, []byte(`"io.nats.`)) && !bytes.Contains(i.Data, []byte(`"HOLDPOINT_`)) {
		return false
	}
	var answer struct {
		Type   string
		Stream string
		Seq    *uint64
	}
	if json.Unmarshal(i.Data, &answer) != nil {
		return false // No answer of the broker's; the reader says what is wrong with it.
	}
	return strings.HasPrefix(answer.Type, "io.nats.jetstream.api.") ||
		answer.Seq != nil && strings.HasPrefix(answer.Stream, "HOLDPOINT_")
}
