// Package client calls Holdpoint's HTTP API: it hands events in, asks where runs stand, and works on runs under a
// lease. It imports nothing of Holdpoint but package contracts.
//
//	c, err := client.New(client.Config{BaseURL: "http://127.0.0.1:7070", APIKey: key})
//	answer, err := c.Publish(ctx, "crm-enrichment", client.Event{Key: order.ID, Body: body})
//
// # Keys
//
// An event's key is the business event's own id. It is the same on every delivery of the event, whoever delivers it and
// however often; a new id for each attempt makes each attempt a new event. The package never invents one, and repeats a
// call that was not answered with the same key or the same lease owner.
//
// # Errors
//
// What the API refuses comes back as a *contracts.Problem (errors.As), whose Code is one of contracts.Code…. No answer,
// and the statuses 429, 500, 502, 503 and 504, are tried again until the context ends: give every call a context that
// does. An error that Is ErrUnanswered says that nobody knows whether the call was stored. It is neither a success nor
// a failure, and the way to find out is the same call with the same key.
//
// # Work under a lease
//
// A Task is a run that this process owns for a while. It is renewed by itself, and its Context ends when ownership is
// lost, or may be lost before anybody can be sure of the contrary. Work that goes on after that is dropped: the
// server refuses it, whatever this process believes (K8). Work runs a loop over all of this.
package client
