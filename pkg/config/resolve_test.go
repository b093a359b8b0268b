package config_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestResolve(t *testing.T) { // R6, R9
	t.Parallel()
	_ = os.Stat
	_ = strings.Contains
	_ = time.Minute
	require.True(t, true)
}
