// Package config reads the files in which a team declares its tenants: where events come from, which actions exist,
// which rules route them, and which external systems effects reach. It only reads and checks; every other package takes
// the values it needs as ready structs.
package config

import (
	"time"

	"github.com/holdpoint/holdpoint/pkg/signature"
)

// Config is everything one configuration directory declares.
type Config struct {
	Tenants []*Tenant
	// Version is the hex SHA-256 over the names and bytes of all files read, so that two replicas can tell whether they
	// run the same configuration.
	Version string
	// Warnings are what is no mistake and should be known: declarations that do not count, and checks that soon will not (D13).
	Warnings []Warning
}

// Tenant is one isolated customer of a Holdpoint installation.
type Tenant struct {
	ID               string // lower-case slug, [a-z0-9-]{1,32}; it appears in NATS subjects
	DisplayName      string
	TimeZone         *time.Location // in which reviewers are told times besides UTC; nil is UTC alone
	APIKeys          []APIKey
	TokenIssuers     []TokenIssuer // whose access tokens admit programs besides
	RateLimit        *RateLimit    // of requests to intake; nil is none
	KillSwitch       KillSwitch    // who closes and opens the tenant's kill switches; no decision depends on it
	Callbacks        *Callbacks    // nil: nobody is called when a run has ended
	WorkflowVersions []string      // declared active workflow versions, such as "crm-enrichment@3" (P3)
	Sources          []*Source
	Actions          []*Action
	Rules            []*Rule
	Evaluations      []*Evaluation // that rules rely on to let cases act with no person asked (P4)
	PolicyTests      []*PolicyTest // what the rules are expected to decide (P7)
	Connectors       []*Connector
	Checks           []*Check      // what is known of the connectors' promises (D13)
	ChecksGoodFor    time.Duration // how long that counts; 0 is for ever
	People           []*Person     // whom the tenant knows; somebody who is not here may still hold a role
	Roles            []*Role       // how a sign-in comes to hold a role
	Delegations      []*Delegation // who decides for whom for a time (A16)
	Channels         []*Channel    // where reviewers are told that a decision waits
	PolicyVersion    string        // hex SHA-256 of PolicyContent (P2, P7)
	PolicyContent    []byte        // JSON of actions, schemas, workflow versions and rules, as it is stored; see WithPolicy
}

// Scopes of an API key.
const (
	ScopePublish = "publish" // post events
	ScopeWork    = "work"    // claim, renew, submit, fail
	ScopeRead    = "read"    // read runs
)

// APIKey admits a program. Only the hash of the key is configured.
type APIKey struct {
	Name   string
	SHA256 string // hex SHA-256 of the key
	Scopes []string
	Owner  string // id of the person who answers for the program; "" where nobody is named
}

// RateLimit bounds what a tenant may ask of one replica of intake. What comes over JetStream is not limited: it waits in the
// stream.
type RateLimit struct {
	PerSecond float64
	Burst     int
}

// Callbacks are signed posts (Standard Webhooks 1.0) to addresses that events name, when their runs have ended. Exactly one of
// Secret, SecretEnv and SecretFile is set, as for a Webhook.
type Callbacks struct {
	AllowedHosts []string // host or host:port; an address elsewhere is refused with its event
	Secret       string   // must not be logged
	SecretEnv    string
	SecretFile   string
	Timeout      time.Duration // of one call
}

// TokenIssuer is an OpenID Connect provider whose JWT access tokens (RFC 9068) admit programs, within Scopes.
type TokenIssuer struct {
	Issuer   string              // as in the token's iss
	Audience string              // must be in the token's aud
	Claims   map[string][]string // the token must have each of these claims, with one of its values
	Scopes   []string
}

// Modes of a source: how a proposal gets attached to an event (M1).
const (
	ModeInline = "inline" // (a) the event already carries its proposal
	ModeWorker = "worker" // (b) a worker claims, works under a lease and submits the proposal
)

// Source is one origin of events.
type Source struct {
	ID       string // [a-z0-9-]{1,64}; it appears in NATS subjects and URLs
	Mode     string
	MaxBytes int64          // largest accepted body
	Schema   []byte         // JSON Schema of the body; nil accepts any object
	Rules    []*SourceRules // ascending by Version; the last is active, earlier ones stay readable (K15)
	Proposal string         // JSON pointer to the inline proposal; "" is the whole body
	// CorrelationID is a JSON pointer to the id that every later record carries (K12); "" or absent in the body: the
	// idempotency key serves.
	CorrelationID string
	// Corrects is a JSON pointer to {"key", "by", "reason"}, with which an event says that it corrects an earlier one
	// (K10); "" where the source takes no corrections.
	Corrects string
	// Attempts is how often a run is given to a worker before it ends without a proposal (M4).
	Attempts int
	// Link is a JSON pointer to the https address of the workflow's execution, for reviewers; "" where events have none.
	Link string
	// Requester is a JSON pointer to what the event calls the person who asked (see Tenant.PersonByAlias), whom
	// separation of duties keeps from deciding (A5). "" where a machine sends and no person asked.
	Requester string
	Lease     Lease
	Signature *signature.Config // how every delivery must be signed, on every door; nil where none need be
	Proposer  *Proposer         // drafts the proposals of a source in mode worker; nil where others do
	Agent     *Agent            // likewise
}

// ActiveRules are the rules under which new events are claimed.
func (s *Source) ActiveRules() *SourceRules { return s.Rules[len(s.Rules)-1] }

// SourceRules is one version of how a source's events are keyed and hashed (K1, K5, K15).
type SourceRules struct {
	Version int
	Key     KeyRule
	Hash    HashRule
	// OverlapWith is the version whose key is looked up as well while redeliveries keyed under it can still arrive;
	// 0 is none.
	OverlapWith int
}

// KeyRule says where the idempotency key comes from; exactly one field is set (K1).
type KeyRule struct {
	Header     string   // a request header, or a NATS header of the same name
	CloudEvent bool     // CloudEvents source and id
	Pointers   []string // JSON pointers whose values are joined
	CEL        string   // an expression over `body` and `headers` that yields a string
}

// HashRule selects the business fields that the payload hash covers (K5). Empty Include is the whole body.
type HashRule struct {
	Include []string // JSON pointers
	Exclude []string // JSON pointers
}

// Lease bounds a worker's ownership of a run (K7).
type Lease struct {
	Duration    time.Duration // one lease
	MaxLifetime time.Duration // all renewals of one owner together
}

// Risk levels of an action type.
const (
	RiskLow    = "low"
	RiskMedium = "medium"
	RiskHigh   = "high"
)

// Action is a registered action type (P1).
type Action struct {
	Type       string // such as "crm.contact.update"
	Schema     []byte // JSON Schema of proposed_change; unknown fields must be refused (M2)
	Connector  string
	Operation  string // an operation of the connector
	Owner      string // who answers for this action type
	Risk       string
	Reversible bool
	// Category is the sensitivity category, or "" for none: customer_message, payment, discount, account_change,
	// crm_change, deletion, publication, access_right.
	Category string
	// Profession is set where a qualified professional must decide (P5): medical, legal, regulated_finance, child_safety,
	// structural.
	Profession    string
	Thresholds    map[string]string // exact decimals, read by rules as thresholds.NAME
	Audience      []string          // roles that may decide
	Review        ReviewRule
	DecideWithin  time.Duration
	ExecuteWithin time.Duration
	Evidence      []EvidenceRule
	NearDuplicate *NearDuplicate // nil looks for none
	Shadow        bool           // decide and record, send nothing and ask nobody (P10)
	Revisions     Revisions      // how often a proposal can be sent back
	Limits        []Limit        // on what may be authorized without a person (P8)
	Rejection     string         // what the caller is told to do when this is rejected
	Card          Card           `json:"-"` // what a reviewer is shown; no decision depends on it
	Resolve       Resolve        `json:"-"` // how operators settle it; no decision depends on it

	pos Position
}

// Pos is where the action is declared.
func (a *Action) Pos() Position { return a.pos }

// ReviewRule is what a decision about an action takes besides a role of its audience (A5, A6). The loader fills in the
// defaults: one reviewer, a reminder when three quarters of the time are over, and for high risk always a typed reason and a recent
// sign-in.
type ReviewRule struct {
	Quorum       int           // different people who must approve, from 1 to 10; with stages, what all groups come to
	Stages       []Stage       `json:",omitempty"` // in their order; nil where a quorum of the audience is enough (A16)
	TypedReason  bool          // an approval needs a reason in the reviewer's own words
	RecentSignIn time.Duration // the longest that the sign-in may be ago; 0 asks for none
	RemindBefore time.Duration // how long before the decide-by those who were told are reminded (A12)
	Escalation   *Escalation   // nil where nobody else may decide later
	BreakGlass   *BreakGlass   `json:",omitempty"` // nil where nobody may approve alone
}

// Revisions bound how often a proposal is sent back to whoever made it, by a rule of route repair or by a person (P2, A18).
type Revisions struct {
	Rounds int           // 0 to 10; after the last, repair ends the run, and people can only approve or reject
	Within time.Duration // how long a better proposal is awaited
}

// Unattended reports whether the type may act with no person asked at all, as far as its own declaration goes (P5).
func (a *Action) Unattended() bool { return a.Profession == "" }

// NearDuplicate sends an intent to a person where another key wanted nearly the same lately (K13).
type NearDuplicate struct {
	Within time.Duration // how long ago the other may have been submitted
	Ignore []string      // JSON pointers into proposed_change that two near duplicates may differ in
}

// EvidenceRule is one piece of evidence that a proposal of this type must cite (P3).
type EvidenceRule struct {
	Source string
	MaxAge time.Duration
}

// Routes, from the most lenient to the strictest.
const (
	RouteAuto        = "auto"
	RouteHumanReview = "human_review"
	RouteRepair      = "repair"
	RouteReject      = "reject"
)

// Rule routes intents of one action type (P2, P3). Of all rules that match, the strictest route stands.
type Rule struct {
	ID     string
	Action string // an action type, or "*"
	When   string // CEL yielding bool
	Route  string
	Reason string
	// Window is how long what the rule lets act is held, and can be taken back, before it is sent (P4, D14); 0 holds nothing.
	Window    time.Duration `json:",omitempty"`
	Exception *Exception    `json:",omitempty"` // nil where nobody looks at samples of what the rule lets act
	Pos       Position      // of When

	places []place // of every code point of When, and of its end
}

// Position is where in the files something was declared.
type Position struct {
	File         string
	Line, Column int
}

// Kinds of a connector's operation (D13).
const (
	OperationCreate   = "create"
	OperationUpdate   = "update"
	OperationDelete   = "delete"
	OperationSend     = "send"
	OperationReassign = "reassign"
)

// Kinds of a connector: how its effects are carried out.
const (
	ConnectorHTTP     = "http"     // Holdpoint calls the system
	ConnectorExecutor = "executor" // a program of the tenant's takes commands, asks leave, writes, and reports (B6)
	ConnectorSMTP     = "smtp"     // Holdpoint hands messages to a mail server, which can be asked nothing afterwards
)

// Connector declares one external system (D12, D13). One of kind executor has neither an address nor a way to look things
// up, so that P6 knows it as what it is; one of kind smtp has an address, and no way to look things up either.
type Connector struct {
	ID           string
	Profile      string   // that it was completed from, "" for none
	Kind         string   // "" is ConnectorHTTP
	BaseURL      string   // with ConnectorSMTP smtp:// or smtps:// and the server
	CAFile       string   // PEM of authorities that are trusted besides the system's; "" for none
	AllowedHosts []string // host or host:port that may be dialled; checked at connect time
	BearerEnv    string   // environment variable that holds a bearer token
	BearerFile   string   // file that holds a bearer token
	Basic        *Basic
	HeaderKey    *HeaderKey
	OAuth2       *OAuth2
	Signing      SecretRef // "whsec_" and base64: requests are signed by Standard Webhooks
	Concurrency  int       // writes in flight
	// Rate bounds the writes that each dispatcher process begins; nil is none.
	Rate    *RateLimit
	Breaker Breaker
	// Timeout is how long one call may take, or how long an executor that was given leave has to report.
	Timeout     time.Duration
	LeaveWithin time.Duration // how long an executor's command is good for without leave
	MaxResponse int64         // bytes read of a response
	Backoff     Backoff
	// ChecksGoodFor takes the place of the tenant's; 0 is for ever, nil leaves it to the tenant.
	ChecksGoodFor *time.Duration
	Webhook       *ProviderWebhook // nil where the provider tells nothing by itself
	Mail          *MailServer      // with ConnectorSMTP alone
	Operations    []*Operation
}

// Longest is how long one call may take, and where it needs an access token, getting that before it.
func (c *Connector) Longest() time.Duration {
	if c.OAuth2 != nil {
		return 2 * c.Timeout
	}
	return c.Timeout
}

// Executor reports whether a program of the tenant's carries the effects out.
func (c *Connector) Executor() bool { return c.Kind == ConnectorExecutor }

// Breaker keeps a connector's effects waiting while its system fails (D11): after so many failures in a row none is sent for OpenFor,
// then one at a time until one succeeds. It is of each dispatcher process. Without Failures there is none.
type Breaker struct {
	Failures int
	OpenFor  time.Duration
}

// Backoff is exponential with full jitter: attempt n waits a random time up to min(Cap, Base·2ⁿ⁻¹).
type Backoff struct {
	Base, Cap time.Duration
	Attempts  int           // then the effect is held as exhausted
	Total     time.Duration // likewise, counted from the first attempt
}

// Operation is one kind of call a connector makes, and what it can promise about it.
//
// Path, Body and Conditional.Value are templates over the approved intent. "${proposed_change.amount}" alone takes the
// JSON value as it stands, exact decimals included; inside longer text it is inserted as text (path segments are
// escaped). Known roots: proposed_change, target, current_version, operation_id, idempotency_key, tenant_id,
// correlation_id.
type Operation struct {
	Name              string
	Kind              string
	Method            string
	Path              string
	Body              any           // YAML tree of templates; nil sends no body
	IdempotencyHeader string        // OperationIDMember for an executor
	KeyWindow         time.Duration // how long the provider remembers a key
	KeyMargin         time.Duration // taken off KeyWindow before a same-key retry
	Replays           bool          // the provider answers a repeated key with the first result
	InOrder           bool          // of one target, what was authorized first is settled before the next is sent
	Conditional       *Conditional
	Success           Success
	Refused           []int    // statuses that are final refusals; empty is 400, 404, 410, 422
	BusyStatuses      []int    // besides 429, statuses that mean "not processed, come back"
	InProgressCode    string   // value of ErrorCode that means "same key in flight"
	KeyReusedCode     string   // value of ErrorCode that means "key used with other parameters"
	ErrorCode         string   // JSON pointer to the error code in a body
	RefusedCodes      []string // values of ErrorCode that are final refusals, whatever the status; likewise the next two
	BusyCodes         []string // "not processed, come back"
	UnauthorizedCodes []string // the credential was not accepted
	ReceiptVersion    string   // JSON pointer to the record's new version in a success body
	RequestIDHeader   string   // the provider's id of the request, kept with the attempt
	Lookup            *Lookup
	Read              *Read
	Standing          *Standing // what of the declaration counts; nil where the loader did not make the operation
	Mail              *Mail     // with ConnectorSMTP alone
}

// Conditional sends the expected version with an update, so that 409 and 412 mean that the target has another (D5).
type Conditional struct {
	Header string // such as If-Match; "" where the version is a member of Operation.Body, which has ${current_version} in it
	Value  string
	// Unproved is set where no check bears out that it holds (D13): the version is sent, and nothing is concluded from it.
	Unproved bool
}

// Success says which answers mean that the effect took place.
type Success struct {
	Statuses   []int  // empty is 200, 201, 204
	Pending    []int  // accepted, finished later; empty is 202, unless Statuses has it
	ExternalID string // JSON pointer to the provider's id; a 2xx without it is not a success where it is set
	// Where is what the body of a success says, nil where the status is enough. PendingWhere is what it says in place of that where
	// the effect was accepted and is finished later.
	Where        *Condition
	PendingWhere *Condition
}

// Condition holds of a JSON body that has exactly this value there.
type Condition struct {
	Pointer string
	Equals  any // string, bool or json.Number; numbers are equal by their exact decimal value
}

// Lookup finds an effect by reading (R1).
type Lookup struct {
	Path       string        // template; GET
	Items      string        // JSON pointer to an array of matches; "" where the body is the one match and 404 means none
	ExternalID string        // JSON pointer inside a match
	Match      string        // JSON pointer inside a match whose value must equal the operation id; "" trusts the query
	Version    string        // JSON pointer inside a match to the record's version
	IndexLag   time.Duration // how long a write may be invisible (R8)
	Conclusive bool          // absence after the index lag is proof (R2)
}

// Person is somebody whom the tenant knows. Only Issuer and Subject say who signed in (A4); all else is how others call
// the person, and may change hands.
type Person struct {
	ID       string // slug; it stands in records of decisions
	Name     string // as shown to others
	Subject  string // OIDC `sub`
	Issuer   string // OIDC `iss`; "" is the deployment's own issuer
	Email    string
	Aliases  []string // mail addresses and user names by which events may call the person, besides ID and Email
	Disabled bool     // may decide nothing; is still found as the one who asked
	// Qualifications are the professions that the person is qualified in (P5), from the list of Action.Profession.
	Qualifications []string
}

// Role is held by every sign-in that has a listed value in a listed claim.
type Role struct {
	Name   string              // as in an action's audience
	Claims map[string][]string // claim of the ID token to its accepted values, in exact letter case
	// Members are the ids of the people who alone can hold the role, each with a claim as above; empty leaves it to the
	// claims. With members it is known how many people there are to decide (P9).
	Members        []string
	Qualifications []string // the professions in which whoever holds the role is qualified (P5)
}

// Kinds of a channel.
const (
	ChannelWebhook = "webhook"
	ChannelEmail   = "email"
	ChannelSlack   = "slack"
	ChannelTeams   = "teams"
)

// Channel tells reviewers that a decision waits. It carries no authority: what it sends can be lost or repeated (A1).
type Channel struct {
	ID      string
	Kind    string
	Roles   []string      // audience roles that it serves; empty serves all
	Webhook *Webhook      // set for ChannelWebhook alone
	Email   *Email        // set for ChannelEmail alone
	Chat    *Chat         // set for ChannelSlack and ChannelTeams alone
	Timeout time.Duration // of one delivery
}

// Webhook receives signed HTTP posts (Standard Webhooks 1.0). Exactly one of Secret, SecretEnv and SecretFile is set;
// wherever it is kept, the secret is "whsec_" and the base64 of 24 to 64 bytes.
type Webhook struct {
	URL          string   // absolute http or https; may hold a credential in its path or query, so keep it out of logs
	Secret       string   // the secret itself, which must not be logged
	SecretEnv    string   // environment variable that holds it
	SecretFile   string   // file that holds it
	AllowedHosts []string // host or host:port that may be dialled; checked at connect time (D12)
}

// How mail is protected on its way to the server.
const (
	TLSNone     = "none"     // for a server on this machine only
	TLSStart    = "starttls" // the connection turns to TLS, or nothing is sent (RFC 3207)
	TLSImplicit = "tls"      // TLS from the first byte (RFC 8314)
)

// Email is sent to fixed addresses by one SMTP server.
type Email struct {
	Server      string // host:port
	From        string
	To          []string
	UsernameEnv string // environment variables of the login; both are "" where the server asks for none
	PasswordEnv string
	TLS         string
	Template    *MessageTemplate // nil says the usual
}
