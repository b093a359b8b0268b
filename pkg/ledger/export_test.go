package ledger

// DrainSQL is what a test asks Postgres to explain.
const DrainSQL = drainSQL
