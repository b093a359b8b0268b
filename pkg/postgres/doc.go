// Package postgres runs, opens, migrates and writes to the one authority of an installation.
//
// A real Postgres is started from the binaries found on the machine (Start), every service gets its own pool under
// its own role (Open), the schema is brought up to date under a lock (Migrate), and a change of state is one short
// transaction whose commit outlives the request that asked for it (InTx). Errors are told apart by what may be done
// about them: try the whole batch again (Retryable), look for the bad item (DataError), or look up whether it
// happened (CommitUnknown).
package postgres
