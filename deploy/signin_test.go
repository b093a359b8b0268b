package deploy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/demoidp"
)

// TestLocalSignIn holds the patch that gives approval an identity provider to what both of them do with it.
func TestLocalSignIn(t *testing.T) {
	m := readManifests(t)
	const file = "sign-in.yaml"
	patch := m.patches[file]
	require.Equal(t, []string{"approval"}, patched(t, m, file))
	own := map[string]string{}
	for _, v := range patch.container().Env {
		own[v.Name] = v.Value
	}
	pages, issuer := own["HOLDPOINT_APPROVAL_PUBLIC_URL"], own["HOLDPOINT_APPROVAL_ISSUER"]
	provider := patch.Spec.Template.Spec.Containers[1]
	served := m.workloads["approval"].container()

	t.Run("ServiceAndProviderKnowEachOther", func(t *testing.T) {
		env := m.load(t, m.workloads["approval"])
		require.Equal(t, demoidp.DemoSecret, env["HOLDPOINT_APPROVAL_CLIENT_SECRET"])
		listens := "127.0.0.1" + address(provider.port("sign-in"))
		require.Equal(t, "http://"+listens, issuer)
		require.Equal(t, []string{"demo-sign-in", "--addr=" + listens, "--redirect=" + pages + "/callback"}, provider.Args)
		require.Equal(t, served.Image, provider.Image)
	})

	t.Run("TheBrowserReachesBothWhereTheServiceSays", func(t *testing.T) {
		port := func(url string) string { return strings.TrimPrefix(url, "http://127.0.0.1:") }
		forwards := resources(runTiltfile(t))["approval"].kwargs["port_forwards"]
		wanted := []string{port(pages) + address(served.port("http")), port(issuer) + ":" + port(issuer)}
		require.ElementsMatch(t, wanted, forwards)
		require.Contains(t, readme(t), "port-forward deploy/approval "+strings.Join(wanted, " "))
	})
}

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	return string(text)
}
