package world_test

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets more tests run at once than there are processors: they wait most of their time. Eight worlds stay below
// the connections that the test server of Postgres takes.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	debug.SetGCPercent(400) // the collector would take a sixth of the processor time that the worlds share
	os.Exit(m.Run())
}
