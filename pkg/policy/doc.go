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
// types, panics, and expressions that go over the cost limit. Where a result does not depend on a part that fails, as
// in true || proposed_change.missing > 1, it stands: no value of that part would change it.
//
// # The expressions
//
// Rules are CEL with the differences that exact money and a missing field want (POL-01, POL-05). JSON numbers are exact
// decimals of any size and never pass through a float; float literals, double(), / and % do not exist. Only numbers,
// durations and timestamps can be ordered: a text on either side of < is an error, never a comparison by letters.
// decimal(x) turns plain decimal text into a number and refuses everything else.
//
// Values of two types cannot be compared, either way round: kind != "large" is an error for null and for 7, and so is
// !(kind in ["large"]). A field is compared with null by writing null. has(x.y) tells whether there is a field, and is
// an error where it is null. What a proposal leaves out beside its change (current_version, a member of its evidence)
// is an error to read. There are no conversions between types besides decimal(), timestamp() and duration() of texts,
// and no type(): the schema of the action type is what pins the types down, and holds before any rule is asked.
//
// # What a model says of itself
//
// It never makes a route more lenient (M6). An auto rule cannot read uncertainty, nor confidence, auto_reply or
// priority of a change; and a rule that reads uncertainty matches as well where it would with none stated.
//
// # Before it decides
//
// New reports every mistake of the rules at its place in the file. Check finds rules that can never fire and what
// nothing reads; RunTests decides on the intents of policy_tests.yaml and compares (P7).
package policy
