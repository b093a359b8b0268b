package world_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run at once than there are processors: they wait most of their time. Eight worlds stay below
// the connections that the test server of Postgres takes.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
