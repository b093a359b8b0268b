// Package signature verifies that a delivery was signed by its sender, over the bytes of the body as they were
// received: no parser and no re-encoder comes between.
//
// # Schemes
//
//	scheme             headers                                    signed with HMAC-SHA256    the secret
//	standard_webhooks  Webhook-Id, Webhook-Timestamp,             id.timestamp.body          whsec_ and base64
//	                   Webhook-Signature: v1,BASE64 v1,BASE64
//	stripe             Stripe-Signature: t=SECONDS,v1=HEX,v1=HEX  timestamp.body             text, whsec_ included
//	github             X-Hub-Signature-256: sha256=HEX            body                       text
//	hmac               as declared                                as declared                text
//
// The sources are the Standard Webhooks specification 1.0, Stripe's "Verify webhook signatures manually", and GitHub's
// "Validating webhook deliveries". The scheme hmac is for everybody else: it names the header, the encoding (hex,
// base64, base64url), a prefix such as "sha256=", the algorithm (sha256, sha512), and where there is a timestamp its
// header and the text that is signed, such as "v0:{timestamp}:{body}" (Slack).
//
// # Rotation
//
// Any of several secrets may match, and a sender that rotates may send several signatures. To rotate: list the new
// secret beside the old one and restart, let the sender change over, take the old one away and restart. All secrets are
// tried on every delivery and compared in constant time, so that neither an answer nor its timing tells which matched.
//
// # Time
//
// Timestamps are whole seconds since 1970. They may be off by the tolerance in either direction, five minutes unless
// said otherwise, and are looked at after the signature: only what the sender has signed is ever called stale.
//
// # Replays
//
// A signature that is genuine stays genuine, within the tolerance or, where its scheme has no timestamp, for ever.
// There is no table of signatures seen: a repeated delivery is a duplicate of its run by the idempotency key of its
// source (K1, K3), which is kept for good. That holds because the key of a signed source has to come from what is
// signed: the body, or the id of the scheme standard_webhooks. A key in another header could be changed by whoever
// repeats the delivery, so the loader of the configuration refuses it.
package signature
