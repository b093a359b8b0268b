package connector

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// maxID bounds ids and versions that a provider gives.
const maxID = 512

// classify decides what an answer means (D6). The order matters:
//
//  1. error codes come first, since providers send them under statuses that mean something else otherwise, 200 among them: key
//     reused, in flight, then the declared lists of refused, busy and unauthorized codes; if such codes are declared and the body
//     of an error was cut off, nothing can be said, and neither can it where the body says success or pending besides;
//  2. accepted and succeeded, the latter only if all that the success rule asks for is there; where a success has to say so in its
//     body, a body that says pending is accepted, and one that says neither is ambiguous;
//  3. busy, version conflict, unauthorized, refused, by status;
//  4. everything else, redirects among it, is ambiguous.
func (o *operation) classify(a *answer, now time.Time) Result {
	result := Result{Sent: true, HTTPStatus: a.status}
	if name := o.declared.RequestIDHeader; name != "" {
		result.ProviderRequestID = printable(a.header.Get(name), maxID)
	}
	body, bodyErr := a.json()
	code := text(body, o.declared.ErrorCode)
	result.Class, result.Detail = o.class(a, code)
	if said := o.listed(code); said != "" {
		result.Class = said
		if bodySays(o.where, body) || bodySays(o.pendingWhere, body) {
			result.Class, result.Detail = outcome.Ambiguous, detail("%s, and its body says besides that it was taken", result.Detail)
		}
	} else if result.Class == outcome.Succeeded && o.where != nil {
		o.judgeBody(&result, body, bodyErr)
	}
	switch result.Class {
	case outcome.Succeeded:
		o.receipt(&result, a, body, code, bodyErr)
	case outcome.Accepted:
		result.ExternalID = text(body, o.declared.Success.ExternalID)
	case outcome.RejectedBusy:
		result.RetryAfter = outcome.RetryAfter(a.header.Get("Retry-After"), now)
	}
	return result
}

func bodySays(c *condition, body canonical.Value) bool { return c != nil && c.holds(body) }

// listed is what a code means by the declared lists, "" where it is in none.
func (o *operation) listed(code string) outcome.Class {
	switch d := o.declared; {
	case code == "":
	case code == d.KeyReusedCode || code == d.InProgressCode: // class knows these
	case slices.Contains(d.RefusedCodes, code):
		return outcome.Refused
	case slices.Contains(d.BusyCodes, code):
		return outcome.RejectedBusy
	case slices.Contains(d.UnauthorizedCodes, code):
		return outcome.Unauthorized
	}
	return ""
}

// judgeBody takes back the verdict of a success status where the body does not say so.
func (o *operation) judgeBody(result *Result, body canonical.Value, bodyErr error) {
	switch {
	case bodyErr != nil:
		result.Class, result.Detail = outcome.Ambiguous, detail("%s, but its body cannot be read: %v", result.Detail, bodyErr)
	case o.where.holds(body):
	case bodySays(o.pendingWhere, body):
		result.Class = outcome.Accepted
	default:
		result.Class, result.Detail = outcome.Ambiguous, detail("%s, but its body does not say so at %s", result.Detail, o.where.pointer)
	}
}

// class decides by status and error code alone; the caller checks what a success must hold.
func (o *operation) class(a *answer, code string) (outcome.Class, string) {
	d := o.declared
	said := detail("HTTP %d%s", a.status, withCode(code))
	switch {
	case code != "" && code == d.KeyReusedCode:
		return outcome.KeyReused, said
	case code != "" && code == d.InProgressCode:
		return outcome.InProgress, said
	case slices.Contains(o.accepted, a.status):
		return outcome.Accepted, said
	case slices.Contains(o.succeeded, a.status):
		return outcome.Succeeded, said
	case coded(d) && a.bodyErr != nil:
		return outcome.Ambiguous, detail("%s, and its error code cannot be read: %v", said, a.bodyErr)
	case o.isBusy(a):
		return outcome.RejectedBusy, said
	case d.Conditional.Counts() && (a.status == 409 || a.status == 412):
		return outcome.VersionConflict, said
	case a.status == 401 || a.status == 403:
		return outcome.Unauthorized, said
	case slices.Contains(o.refused, a.status):
		return outcome.Refused, said
	case a.status >= 300 && a.status < 400:
		return outcome.Ambiguous, detail("%s to %s, not followed; check the connector's base URL and path", said,
			location(a.header.Get("Location")))
	}
	return outcome.Ambiguous, said
}

// isBusy: a declared server error counts only with Retry-After. Without it, any proxy may have said so after passing the
// request on.
func (o *operation) isBusy(a *answer) bool {
	return slices.Contains(o.busy, a.status) && (a.status < 500 || a.header.Get("Retry-After") != "")
}

// receipt takes ids from a success, and takes back the verdict where the success rule is not met.
func (o *operation) receipt(result *Result, a *answer, body canonical.Value, code string, bodyErr error) {
	success, version := o.declared.Success.ExternalID, o.declared.ReceiptVersion
	result.ExternalID = text(body, success)
	result.RecordVersion = text(body, version)
	needed := success != "" || (len(a.body) > 0 && (version != "" || o.declared.ErrorCode != ""))
	var fault string
	switch {
	case a.bodyErr != nil || (needed && bodyErr != nil):
		fault = fmt.Sprintf("its body cannot be read: %v", bodyErr)
	case code != "":
		fault = "it carries an error code" // some providers answer 200 and say "not ok" inside
	case o.complains(body):
		fault = "there is something at " + o.declared.ErrorCode + ", where its errors are"
	case success != "" && result.ExternalID == "":
		fault = "it lacks the id at " + success
	default:
		return
	}
	result.Class = outcome.Ambiguous
	result.Detail = detail("%s, but %s", result.Detail, fault)
}

// complains reports whether the body has anything where errors are: an object, a list or a text too long for a code says that something
// is wrong as well as a code does. Null, false and what is empty say nothing.
func (o *operation) complains(body canonical.Value) bool {
	if o.declared.ErrorCode == "" {
		return false
	}
	found, there := body.Pointer(o.declared.ErrorCode)
	switch found.Kind() {
	case canonical.Null:
		return false
	case canonical.Bool, canonical.String, canonical.Number:
		return there && found.Text() != "" && found.Text() != "false"
	case canonical.Array, canonical.Object:
		return there && found.Len() > 0
	}
	return false
}

// json reads the body strictly. An error means that it was cut off, too large, empty or not JSON.
func (a *answer) json() (canonical.Value, error) {
	if a.bodyErr != nil {
		return canonical.Value{}, a.bodyErr
	}
	return canonical.Parse(a.body)
}

// text is a string or number at a pointer, or "" where there is none. An empty pointer leads to nothing.
func text(v canonical.Value, pointer string) string {
	if pointer == "" {
		return ""
	}
	found, _ := v.Pointer(pointer)
	if kind := found.Kind(); kind != canonical.String && kind != canonical.Number {
		return ""
	}
	if id := found.Text(); len(id) <= maxID {
		return id
	}
	return "" // an id of such length is not one that we could find anything by
}

func withCode(code string) string {
	if code == "" {
		return ""
	}
	return fmt.Sprintf(" with code %q", printable(code, 64))
}

// location keeps where a redirect points to, without what may be secret in it.
func location(header string) string {
	u, err := url.Parse(header)
	if err != nil {
		return "an unreadable location"
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment = nil, "", false, ""
	return printable(u.String(), 200)
}
