package connector

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// rendering is the way in which a release makes requests of a declaration and an action. One that makes other bytes of the same counts it
// up; TestRendering has the bytes.
const rendering = 1

// form is all of a connector's declaration that its requests are made of.
type form struct {
	Rendering  int             `json:"rendering"`
	Kind       string          `json:"kind"`
	BaseURL    string          `json:"base_url"`
	Signed     bool            `json:"signed"`
	From       string          `json:"from"`
	Operations []operationForm `json:"operations"`
}

type operationForm struct {
	Name              string       `json:"name"`
	Method            string       `json:"method"`
	Path              string       `json:"path"`
	Body              any          `json:"body"`
	IdempotencyHeader string       `json:"idempotency_header"`
	ConditionalHeader string       `json:"conditional_header"`
	ConditionalValue  string       `json:"conditional_value"`
	Mail              *config.Mail `json:"mail"`
}

// Form names how a connector's requests are made: two of one form make the same bytes of the same action (DSP-04). It holds no
// credential, and does not change with what only says what answers mean.
func Form(c *config.Connector) (canonical.Digest, error) {
	f := form{Rendering: rendering, Kind: c.Kind, BaseURL: c.BaseURL, Signed: c.Signing.Set()}
	if c.Mail != nil {
		f.From = c.Mail.From
	}
	for _, op := range c.Operations {
		o := operationForm{Name: op.Name, Method: op.Method, Path: op.Path, Body: op.Body, IdempotencyHeader: op.IdempotencyHeader, Mail: op.Mail}
		if op.Conditional != nil {
			o.ConditionalHeader, o.ConditionalValue = op.Conditional.Header, op.Conditional.Value
		}
		f.Operations = append(f.Operations, o)
	}
	text, err := json.Marshal(f)
	return sha256.Sum256(text), err
}
