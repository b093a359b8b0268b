package world_test

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"

	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

// TestMain lets more tests run at once than there are processors: they wait most of their time. Five worlds keep both busy, and stay below
// the connections that the test server of Postgres takes. The binary is also the services that a test starts as processes.
func TestMain(m *testing.M) {
	world.ServeProcess()
	flag.Parse()
	if err := flag.Set("test.parallel", "5"); err != nil {
		panic(err)
	}
	debug.SetGCPercent(400) // the collector would take a sixth of the processor time that the worlds share
	os.Exit(m.Run())
}
