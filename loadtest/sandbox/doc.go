// Package sandbox plays the external systems that effects and notices reach: a payments API and a CRM API over HTTP, a
// mail server over SMTP, and an integrator's webhook endpoints. It keeps its own durable ledger of the writes it
// accepted, so that a test can ask the outside world, and not the system under test, how often something happened. It
// runs as its own process, which crash tests never kill.
//
// # A write's life
//
//  1. The body is read and checked; what cannot be understood is a 400 or 422, before any fault.
//  2. The fault plan is made: every rule that matches this request (see Rule). Faults before acceptance answer, hang or
//     cut the connection here, and nothing was written.
//  3. The idempotency key is claimed: a repeat is answered from the first result, with Idempotent-Replayed: true.
//  4. The write is checked against the object (a CRM version, for example), numbered and appended to the ledger.
//  5. When the ledger has reached the disk, the faults after acceptance signal, answer, hang or cut the connection.
//  6. Otherwise the answer leaves.
//
// # APIs
//
// Payments: POST /payments/refunds, GET /payments/refunds/{id}, GET /payments/refunds?reference=R.
//
// CRM: POST /crm/contacts, PATCH /crm/contacts/{id} with If-Match, GET /crm/contacts/{id},
// GET /crm/contacts?external_id=X, GET /crm/updates?reference=R. A contact that nobody created exists at version "1"
// from its first touch, so that a load test can use any id.
//
// A CRM like HubSpot: POST /hubspot/crm/v3/objects/contacts/batch/upsert and …/batch/update with one input each, GET
// /hubspot/crm/v3/objects/contacts/{id}, which never lags, and POST …/search, whose index does. It knows no keys and no
// versions; an upsert that changes nothing is no write.
//
// A chat like Slack: POST /slack/chat.postMessage, GET /slack/conversations.history. It knows no keys, and what goes wrong
// it says inside of HTTP 200: a fault with status 200 and a code.
//
// Workflows like n8n's: POST /n8n/webhook/{name} starts one for every call. A receiver of Standard Webhooks that remembers
// ids: POST /receiver/{name}.
//
// The reference of a write is the member "reference" of its body, else the header X-Operation-Id. The systems of the last
// two paragraphs have it in objectWriteTraceId, in the message's metadata, in operation_id and in Webhook-Id. Every answer
// carries X-Request-Id. Errors are {"error":{"code","message"}}, and these systems' are as they write them.
//
// Mail: SMTP without authentication or TLS, on a port of its own. Everybody's mail is taken, up to 1 MiB and 50
// recipients a message, and goes to nobody: people read it at /mail.
//
// Webhooks: POST /hooks/{name} answers 204; people see them at /hooks. Payments and CRM tell of their own writes by signed posts,
// where somebody wants to know (Destination): that is not durable, and lost where nobody takes it for a while.
//
// Both answer only once what came is on disk, in mail.log and hooks.log, which keep everything. Memory, and so every
// page and list, holds of each kind the newest 2,000 items and 64 MiB. They count in no summary of writes.
//
// Control, for tests only: /_sandbox/faults, /_sandbox/personality/{system}, /_sandbox/webhooks/{system},
// /_sandbox/webhooks/told/{reference}, /_sandbox/writes, /_sandbox/requests (the newest 10,000, in order), /_sandbox/summary,
// /_sandbox/mail?to=ADDR&after=ID, /_sandbox/hooks?name=NAME&after=ID, /_sandbox/smtp and /healthz. Client speaks it.
package sandbox
