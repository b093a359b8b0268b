package deploy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// call is one that the Tiltfile made of a function that Tilt provides.
type call struct {
	args   []string
	kwargs map[string][]string
}

// runTiltfile runs it with functions that only take note of their calls. One that Tilt does not have is an error.
func runTiltfile(t *testing.T) map[string][]call {
	t.Helper()
	calls := map[string][]call{}
	provided := starlark.StringDict{}
	for _, name := range []string{"docker_build", "k8s_yaml", "k8s_resource", "kustomize"} {
		note := func(_ *starlark.Thread, f *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
		) (starlark.Value, error) {
			c := call{kwargs: map[string][]string{}}
			for _, a := range args {
				c.args = append(c.args, words(a)...)
			}
			for _, pair := range kwargs {
				c.kwargs[words(pair[0])[0]] = words(pair[1])
			}
			calls[f.Name()] = append(calls[f.Name()], c)
			return starlark.String(strings.Join(c.args, " ")), nil
		}
		provided[name] = starlark.NewBuiltin(name, note)
	}
	text, err := os.ReadFile("../Tiltfile")
	require.NoError(t, err)
	options := &syntax.FileOptions{TopLevelControl: true}
	_, err = starlark.ExecFileOptions(options, &starlark.Thread{Name: "Tiltfile"}, "Tiltfile", text, provided)
	require.NoError(t, err)
	return calls
}

// words are the strings in a value.
func words(v starlark.Value) []string {
	switch v := v.(type) {
	case starlark.String:
		return []string{string(v)}
	case *starlark.List:
		var all []string
		for i := range v.Len() {
			all = append(all, words(v.Index(i))...)
		}
		return all
	default:
		return []string{v.String()}
	}
}

// resources that the Tiltfile names, each by its workload.
func resources(calls map[string][]call) map[string]call {
	all := map[string]call{}
	for _, c := range calls["k8s_resource"] {
		all[c.args[0]] = c
	}
	return all
}

func TestTiltfile(t *testing.T) {
	t.Parallel()
	calls := runTiltfile(t)
	m := readManifests(t)
	resources := resources(calls)

	t.Run("BuildsTheImageThatTheManifestsRun", func(t *testing.T) {
		t.Parallel()
		build := calls["docker_build"][0]
		require.Equal(t, []string{"holdpoint", "."}, build.args)
		require.Equal(t, []string{"deploy/image/Dockerfile"}, build.kwargs["dockerfile"])
		require.ElementsMatch(t, copied(readDockerfile(t)), build.kwargs["only"])
		for _, s := range roster.Services {
			require.Equal(t, "holdpoint", m.workloads[s.Name].container().Image)
		}
	})

	t.Run("AppliesTheLocalManifests", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{"deploy/kubernetes/local"}, calls["kustomize"][0].args)
		require.Equal(t, calls["kustomize"][0].args, calls["k8s_yaml"][0].args)
		require.FileExists(t, filepath.Join("..", calls["kustomize"][0].args[0], "kustomization.yaml"))
	})

	t.Run("NamesEveryWorkloadAndNoOther", func(t *testing.T) {
		t.Parallel()
		for name := range m.workloads {
			require.Contains(t, resources, name)
		}
		require.Len(t, resources, len(m.workloads))
		require.Len(t, calls["k8s_resource"], len(m.workloads), "a resource is named twice")
	})

	t.Run("StartsServicesOnceTheyHaveWhatTheyStandOn", func(t *testing.T) {
		t.Parallel()
		for _, s := range roster.Services {
			needs := resources[s.Name].kwargs["resource_deps"]
			require.ElementsMatch(t, []string{"migrate", "nats", "sandbox"}, needs, s.Name)
		}
		require.Equal(t, []string{"logins"}, resources["migrate"].kwargs["resource_deps"])
		require.Equal(t, []string{"postgres"}, resources["logins"].kwargs["resource_deps"])
	})

	t.Run("ForwardsPortsThatAreListenedOn", func(t *testing.T) {
		t.Parallel()
		var local []string
		for name, r := range resources {
			for _, forward := range r.kwargs["port_forwards"] {
				here, there, _ := strings.Cut(forward, ":")
				local = append(local, here)
				heard := func(c container) bool {
					return slices.ContainsFunc(c.Ports, func(p port) bool { return ":"+there == address(p.ContainerPort) })
				}
				require.True(t, slices.ContainsFunc(m.containers(t, name), heard), "%s: %s", name, forward)
			}
		}
		ports := []string{"7070", "7071", "7072", "7073", "7074", "7075", "7076", "7079"} // mail cannot be sent between pods
		require.ElementsMatch(t, ports, local, "the ports of `holdpoint up`")
	})
}
