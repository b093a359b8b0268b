package intake

import (
	"net/url"
	"strings"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// cloudEventKey joins source and id, which together name one event (CloudEvents 1.0, section 3.1). In structured mode
// they are members of the body. In binary mode they are headers, and a body's members of the same names are the
// integrator's own.
func cloudEventKey(d *delivery) (string, *contracts.Problem) {
	structured := d.structured()
	parts := make([]string, 0, 2)
	for _, name := range []string{"source", "id"} {
		value, problem := d.binaryAttribute(name)
		if structured {
			value, problem = d.structuredAttribute(name)
		}
		if problem != nil {
			return "", problem
		}
		parts = append(parts, value)
	}
	return joinedKey(parts)
}

// structured tells the mode by the content type, as both bindings say; a message without one by what is there.
func (d *delivery) structured() bool {
	if strings.HasPrefix(strings.ToLower(d.contentType()), "application/cloudevents") {
		return true
	}
	_, inBody := d.body.Get("specversion")
	return inBody && len(d.headers["Ce-Specversion"]) == 0 && len(d.headers["Ce-Id"]) == 0
}

// structuredAttribute is a member of the body. A header may repeat it, but not with another value (HTTP binding 3.2.2).
func (d *delivery) structuredAttribute(name string) (string, *contracts.Problem) {
	value, _ := d.body.Get(name)
	if value.Kind() != canonical.String || value.Text() == "" {
		return "", missingAttribute(name)
	}
	if len(d.headers[attributeHeader(name)]) > 0 {
		if header, problem := d.binaryAttribute(name); problem != nil || header != value.Text() {
			return "", ambiguousAttribute(name)
		}
	}
	return value.Text(), nil
}

// binaryAttribute is a header. Its value is percent-encoded, and may be quoted (HTTP binding 3.1.3.2; the NATS binding
// is alike).
func (d *delivery) binaryAttribute(name string) (string, *contracts.Problem) {
	value, times := d.headers.one(attributeHeader(name))
	if times > 1 {
		return "", ambiguousAttribute(name)
	}
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		value = unquoted.Replace(value[1 : len(value)-1])
	}
	value, err := url.PathUnescape(value)
	switch {
	case err != nil:
		return "", newProblemf(contracts.CodeKeyInvalid, "The header ce-%s is not percent-encoded.", name)
	case value == "":
		return "", missingAttribute(name)
	}
	return value, nil
}

// unquoted undoes the quoting of RFC 9110, section 5.6.4, where only these two are ever escaped.
var unquoted = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

func attributeHeader(name string) string { return "Ce-" + strings.ToUpper(name[:1]) + name[1:] }

func missingAttribute(name string) *contracts.Problem {
	return newProblemf(contracts.CodeKeyMissing, "The CloudEvents attribute %s is missing.", name)
}

func ambiguousAttribute(name string) *contracts.Problem {
	return newProblemf(contracts.CodeKeyAmbiguous, "The CloudEvents attribute %s is there with two values.", name)
}
