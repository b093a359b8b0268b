// Package world gives a test a whole installation in one line: a database of its own, a broker, the sandbox provider,
// the example tenant, and every service with its own connections under its own Postgres role, all in the test's
// process.
//
//	w := world.New(t)
//	event := w.Update()
//	w.Post(event)
//	w.Await(event, "completed")
//
// # Misfortune
//
// Every service reaches Postgres and the broker through TCP links of its own, as a process of its own would. Links can
// be cut and severed, and with world.Luck they lose, repeat, delay and reorder what they carry: the services themselves
// do not know. The dice are thrown with a seed that the test prints. Restarts of the broker, with or without its store,
// and the sandbox's fault plan add what goes wrong beyond the wires. The journey of many runs is the same under each,
// and must end in the same rows.
//
// # Time
//
// The example configuration is tuned for tests in its time constants alone (see quick). Nothing sleeps: a test waits
// for a row, an answer or a message, with the one helper Until.
package world
