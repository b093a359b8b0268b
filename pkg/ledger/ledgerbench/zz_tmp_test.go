package ledgerbench_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger/ledgerbench"
)

func cpu(pid string) float64 {
	b, _ := os.ReadFile("/proc/" + pid + "/stat")
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
	n := 0.0
	for _, i := range []int{11, 12, 13, 14} {
		v, _ := strconv.ParseFloat(f[i], 64)
		n += v
	}
	return n / 100
}

func TestTmp(t *testing.T) {
	pid := os.Getenv("PGPID")
	if pid == "" {
		t.Skip()
	}
	d, _ := time.ParseDuration(os.Getenv("DUR"))
	conns, _ := strconv.Atoi(os.Getenv("CONNS"))
	run := func(d time.Duration) (float64, ledgerbench.Result) {
		before := cpu(pid)
		r, err := ledgerbench.Measure(t.Context(), os.Getenv("HOLDPOINT_TEST_POSTGRES_URL")+os.Getenv("EXTRA"), ledgerbench.Options{Connections: []int{conns}, Duration: d})
		require.NoError(t, err)
		time.Sleep(300 * time.Millisecond)
		return cpu(pid) - before, r
	}
	base, _ := run(time.Millisecond)
	full, r := run(d)
	fmt.Printf("conns %d: %.0f runs/s, %d runs, pg cpu %.1f us/run (%.2f s)\n", conns, r.RunsPerSecond, r.Measured[0].Runs, (full-base)/float64(r.Measured[0].Runs)*1e6, full-base)
}
