// Package bus carries messages between services, and to and from integrators, over NATS JetStream. Nothing else in
// the repository imports watermill or NATS.
//
// The broker is transport, never authority: it may lose its store, deliver twice, late and out of order, and every
// run still reaches its end from Postgres alone (B4). What this package adds to that:
//
//   - One place makes streams and durable consumers (Provision), consumers before the first message is let in, and
//     Watch makes them again when they are gone.
//   - Publishing is asynchronous in batches with one deadline and a result for each message. Without a connection it
//     fails at once; nothing is buffered that could leave later behind the caller's back.
//   - Consuming hands a handler the batch as it was fetched and takes a verdict for each item. An item is acknowledged
//     only after the handler has said so, which it does after its commit; everything else comes again, later each time.
//
// Serve is for callers who want an answer and have no HTTP: a request/reply service that replicas share, answered when the
// handler says so, which again is after its commit.
//
// Tenants' programs come in through accounts of their own (Authorization, and EmbeddedConfig.Users for a broker in the
// process), which reach nothing but their tenant's subjects (TenantRights, B7). What the broker writes at their request,
// an acknowledgement or an answer, stays in those accounts; readers of their streams are made by Watch.
//
// The life of a batch: fetched, kept alive by heartbeats, through the router and its middlewares to the handler,
// verdicts, acks and delayed naks. Items delivered more than AloneAfter times are handled alone, so that the item at
// fault finds itself; a handler that still cannot process one delivered more than ParkAfter times parks it in
// Postgres and acknowledges it.
//
// On shutdown fetching stops first, then what is held is finished and acknowledged on contexts that outlive the stop.
package bus
