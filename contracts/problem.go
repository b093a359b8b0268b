package contracts

import "net/http"

// ProblemContentType is the media type of a Problem (RFC 9457).
const ProblemContentType = "application/problem+json"

// Codes of problems: a closed list. On the bus, the same code is the reason of a RunRefused.
const (
	CodeUnsupportedMediaType = "unsupported_media_type"
	CodeTooLarge             = "too_large"
	CodeMalformed            = "malformed"         // not JSON, or JSON that cannot be represented faithfully (K5)
	CodeSchemaInvalid        = "schema_invalid"    // the body, or a proposal, does not fit its schema
	CodeUnknownSource        = "unknown_source"    //
	CodeUnknownConnector     = "unknown_connector" // or it takes no webhooks
	CodeNotFound             = "not_found"         // no such run, or no such path
	CodeMethodNotAllowed     = "method_not_allowed"
	CodeBadQuery             = "bad_query" // a search that is not understood
	CodeTooManyRequests      = "too_many_requests"
	CodeCallbackRefused      = "callback_refused" // an address that is not called
	CodeKeyMissing           = "key_missing"      // no idempotency key where the source says it is (K1)
	CodeKeyInvalid           = "key_invalid"      // over 255 bytes, or with control characters
	CodeKeyAmbiguous         = "key_ambiguous"    // two keys
	CodePayloadMismatch      = "payload_mismatch" // K4
	CodeOwnershipLost        = "ownership_lost"   // K8
	CodeNoOriginal           = "no_original"      // a correction of a key that the tenant never had (K10)
	CodeOriginalOpen         = "original_open"    // a correction of a run that has not ended (K10)
	CodeNoApproval           = "no_approval"      // no such request, or not one that the caller may see
	CodeNotDecided           = "not_decided"      // another decision stands, or what was shown has changed
	CodeSignInAgain          = "sign_in_again"    // the sign-in is too long ago for this
	CodeUnauthenticated      = "unauthenticated"  //
	CodeBadSignature         = "bad_signature"    // the source's events are signed, and this is not what its sender signed
	CodeStaleSignature       = "stale_signature"  // genuine, but signed too long ago, or by a clock that is wrong
	CodeForbidden            = "forbidden"        //
	CodeUnavailable          = "unavailable"      // nothing was stored; try again
	CodeInternal             = "internal"         // whether anything was stored is not known; try again with the same key
)

type problemKind struct {
	status int
	title  string
}

var problemKinds = map[string]problemKind{
	CodeUnsupportedMediaType: {http.StatusUnsupportedMediaType, "The content type is not accepted"},
	CodeTooLarge:             {http.StatusRequestEntityTooLarge, "The body is over the size limit"},
	CodeMalformed:            {http.StatusBadRequest, "The body cannot be read faithfully"},
	CodeSchemaInvalid:        {http.StatusUnprocessableEntity, "The body does not fit its schema"},
	CodeUnknownConnector:     {http.StatusNotFound, "There is no such connector"},
	CodeUnknownSource:        {http.StatusNotFound, "There is no such source"},
	CodeNotFound:             {http.StatusNotFound, "There is no such run or path"},
	CodeMethodNotAllowed:     {http.StatusMethodNotAllowed, "The path takes other methods"},
	CodeBadQuery:             {http.StatusBadRequest, "The search is not understood"},
	CodeTooManyRequests:      {http.StatusTooManyRequests, "The tenant asks too much at once"},
	CodeCallbackRefused:      {http.StatusUnprocessableEntity, "That address is not called"},
	CodeKeyMissing:           {http.StatusBadRequest, "The idempotency key is missing"},
	CodeKeyInvalid:           {http.StatusBadRequest, "The idempotency key is not valid"},
	CodeKeyAmbiguous:         {http.StatusBadRequest, "There is more than one idempotency key"},
	CodePayloadMismatch:      {http.StatusUnprocessableEntity, "The key was used with another payload"},
	CodeOwnershipLost:        {http.StatusConflict, "The lease is no longer yours"},
	CodeNoOriginal:           {http.StatusUnprocessableEntity, "There is nothing to correct under that key"},
	CodeOriginalOpen:         {http.StatusConflict, "The run that would be corrected has not ended"},
	CodeNoApproval:           {http.StatusNotFound, "There is no such request"},
	CodeNotDecided:           {http.StatusConflict, "The decision did not count"},
	CodeSignInAgain:          {http.StatusUnauthorized, "A more recent sign-in is needed"},
	CodeUnauthenticated:      {http.StatusUnauthorized, "The caller is not known"},
	CodeBadSignature:         {http.StatusUnauthorized, "The signature is not valid"},
	CodeStaleSignature:       {http.StatusUnauthorized, "The signature is not of now"},
	CodeForbidden:            {http.StatusForbidden, "The caller may not do this"},
	CodeUnavailable:          {http.StatusServiceUnavailable, "Nothing was stored; try again"},
	CodeInternal:             {http.StatusInternalServerError, "Something failed; try again with the same key"},
}

// Problem is an RFC 9457 problem details object (schemas/problem.v1.json). Members after Detail are extensions.
type Problem struct {
	Type   string       `json:"type"` // "urn:holdpoint:problem:" and the code
	Title  string       `json:"title"`
	Status int          `json:"status"` // the HTTP status
	Detail string       `json:"detail,omitempty"`
	Code   string       `json:"code"`
	Result string       `json:"result,omitempty"` // payload_mismatch or ownership_lost, as in an Answer (K14)
	RunID  string       `json:"run_id,omitempty"` // the run that the problem is about
	Errors []FieldError `json:"errors,omitempty"`
}

// FieldError is one thing that is wrong in a body.
type FieldError struct {
	Pointer string `json:"pointer"` // JSON pointer (RFC 6901) into the body; "" is the whole of it
	Detail  string `json:"detail"`
}

// NewProblem fills status, title and type from the code. A code outside the list becomes CodeInternal.
func NewProblem(code, detail string) *Problem {
	kind, ok := problemKinds[code]
	if !ok {
		code, kind = CodeInternal, problemKinds[CodeInternal]
	}
	p := &Problem{
		Type: "urn:holdpoint:problem:" + code, Title: kind.title, Status: kind.status, Detail: detail, Code: code,
	}
	if code == CodePayloadMismatch || code == CodeOwnershipLost {
		p.Result = code
	}
	return p
}

// Error makes a problem an error, so that an edge can return it as such.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Title + ": " + p.Detail
}
