// Package policy decides the route of an intent. It is pure: a Decision is a function of the tenant's configuration and
// the Input, which carries its own clock, so the same inputs and version give the same decision, always (P2).
//
// # How a route comes about
//
// From lenient to strict the routes are auto, human_review, repair and reject.
//
//  1. An action type that is not registered is rejected (P1).
//  2. A change that its schema refuses is rejected (M2).
//  3. Every rule for the type is evaluated. All that match count, and the strictest of their routes stands. With none,
//     a person decides.
//  4. Built-in checks raise the route to human_review, and no rule can lower it again: evidence that is missing, stale
//     or contradictory, an irreversible type, an undeclared workflow version, stated high uncertainty, and a type that
//     needs a qualified professional (P3, P5).
//
// # Rules that fail
//
// A rule that cannot be evaluated counts with its own route, and at least with human_review: a deny rule must not
// vanish because a field is missing, and an auto rule must not pass on a guess. That holds for missing fields, wrong
// types, panics, and expressions that go over the cost limit.
//
// # The expressions
//
// Rules are CEL with the differences that exact money wants. JSON numbers are exact decimals of any size and never pass
// through a float; float literals, double(), / and % do not exist. Only numbers, durations and timestamps can be
// ordered: a text on either side of < is an error, never a comparison by letters. decimal(x) turns plain decimal text
// into a number and refuses everything else. A rule that routes auto cannot read uncertainty, which the model states
// itself (M6).
//
// What CEL keeps is that values of two types are unequal, not an error: proposed_change.kind != "large" holds for null.
// The schema of the action type is what pins the types down.
package policy
