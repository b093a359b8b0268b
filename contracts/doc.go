// Package contracts holds what crosses Holdpoint's borders: the events on the bus, the proposals that workers submit
// and the answers they get. It imports only the standard library, so that an integrator can import it alone.
//
// # Events
//
// Every event is a CloudEvents 1.0 envelope in structured JSON mode. Internal events travel between Holdpoint's own
// services and carry ids and hashes, never payloads (B6):
//
//	holdpoint.internal.<record>.<what>           IntentSubmitted, EffectRequested
//
// Tenant events tell integrators what happened:
//
//	holdpoint.events.<tenant>.<record>.<what>    RunAccepted, RunAwaitingHuman, RunSentBack, RunCompleted, RunEnded, RunConflict,
//	                                             RunRefused, ApprovalRequested, ApprovalDecided
//
// Each data type names its bus subject and its CloudEvents type by hand. The type ends in a version, as in
// "holdpoint.run.completed.v1". New is the only way to make an event and Decode the only way to read one; an event that
// misses a required member passes neither.
//
// # Documents
//
// openapi.yaml describes the HTTP interface and asyncapi.yaml the bus as integrators see it; both refer to the JSON Schemas
// in schemas. Text gives any of them as a file that stands alone, which is what `holdpoint contracts NAME` prints.
//
// # Versions
//
// Within one version, members are only ever added, and only optional ones. A decoder therefore skips members that it
// does not know, so that services of two releases can run side by side; whatever it does know must be there exactly
// once, in exactly this letter case, and of the right type. Any other change is a new version beside the old. A golden
// of each version stays in testdata/golden and must always decode; testdata/shipped keeps each schema and document as it
// was shipped, and a test compares. Who adds something harmless copies the file there with it.
package contracts
