// Package matrix takes one effect through each combination of what a provider promises, how it misbehaves, and where
// the dispatcher dies, and asks the provider's own ledger how many writes there were.
//
//	go run ./loadtest matrix
//	go run ./loadtest matrix --short --seed 7 --json matrix.json
//	go run ./loadtest matrix --only create_replay/accept_then_hang/send@after
//
// profile.go says what providers promise: each profile is a connector with one operation of an action type that acts by
// itself. fault.go says how they misbehave, as rules of the sandbox for one operation id. cell.go makes the cells of all
// three. play.go runs them in the crash suite's world, on real processes: those without a death all at once, the deaths
// one after the other. What a death leaves behind heals while the next ones come, but none comes while an effect is about
// to be sent. facts.go reads what became of each cell; judge.go, a pure function, decides what of it breaks a promise.
//
// No cell breaks what its connector declares: the sandbox can ignore keys or answer searches that find nothing, and then
// nobody can keep a write from being made twice.
package matrix
