package canonical

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLeaves(t *testing.T) {
	t.Parallel()
	leaves := func(text string) (found []string) {
		v, err := Parse([]byte(text))
		require.NoError(t, err)
		for pointer, leaf := range v.Leaves() {
			at, ok := v.Pointer(pointer)
			require.True(t, ok, pointer)
			require.True(t, at.Equal(leaf), pointer)
			found = append(found, pointer+"="+leaf.String())
		}
		return found
	}
	require.Equal(t, []string{`/a={}`, `/b/c=[{"d":1}]`, `/b/e~1f/g~0=null`, `/z=1.5`},
		leaves(`{"z":1.50,"b":{"e/f":{"g~":null},"c":[{"d":1}]},"a":{}}`))
	require.Equal(t, []string{`=7`}, leaves(`7`))
	require.Equal(t, []string{`={}`}, leaves(`{}`))

	v, err := Parse([]byte(`{"a":{"b":1,"c":2},"d":3}`))
	require.NoError(t, err)
	for pointer := range v.Leaves() {
		require.Equal(t, "/a/b", pointer)
		break
	}
}
