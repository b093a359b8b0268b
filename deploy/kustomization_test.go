package deploy_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/deploy"
)

type kustomization struct {
	APIVersion         string   `yaml:"apiVersion"`
	Kind               string   `yaml:"kind"`
	Namespace          string   `yaml:"namespace"`
	Resources          []string `yaml:"resources"`
	Patches            []patch  `yaml:"patches"`
	ConfigMapGenerator []struct {
		Name  string   `yaml:"name"`
		Files []string `yaml:"files"`
	} `yaml:"configMapGenerator"`
}

type patch struct {
	Path   string `yaml:"path"`
	Target struct {
		Kind          string `yaml:"kind"`
		Name          string `yaml:"name"`
		LabelSelector string `yaml:"labelSelector"`
	} `yaml:"target"`
}

// readKustomizations of the whole folder, by directory.
func readKustomizations(t *testing.T) map[string]*kustomization {
	t.Helper()
	all := map[string]*kustomization{}
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "kustomization.yaml" {
			put(t, all, file, documents(t, file)[0], func(*kustomization) string { return path.Dir(file) })
		}
		return err
	})
	require.NoError(t, err)
	return all
}

// patchFiles are the files that change other manifests and are none themselves.
func patchFiles(t *testing.T) map[string]bool {
	t.Helper()
	files := map[string]bool{}
	for dir, k := range readKustomizations(t) {
		for _, p := range k.Patches {
			files[path.Join(dir, p.Path)] = true
		}
	}
	return files
}

// generated are the ConfigMaps that kustomize makes: the name of each, and the file behind each key.
func generated(t *testing.T) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for dir, k := range readKustomizations(t) {
		for _, g := range k.ConfigMapGenerator {
			require.NotContains(t, all, g.Name)
			all[g.Name] = map[string]string{}
			for _, file := range g.Files {
				require.NotContains(t, all[g.Name], path.Base(file), "two files of one key")
				all[g.Name][path.Base(file)] = path.Join(dir, file)
			}
		}
	}
	return all
}

func TestKustomization(t *testing.T) {
	t.Parallel()

	t.Run("NamesOnlyWhatIsThereAndForgetsNothing", func(t *testing.T) {
		t.Parallel()
		for dir, k := range readKustomizations(t) {
			require.Equal(t, "Kustomization", k.Kind, dir)
			named := map[string]bool{"kustomization.yaml": true}
			for _, r := range k.Resources {
				named[r] = true
				require.FileExists(t, manifestOf(filepath.Join(dir, r)), "a resource of %s", dir)
			}
			for _, p := range k.Patches {
				named[p.Path] = true
				require.FileExists(t, filepath.Join(dir, p.Path), "a patch of %s", dir)
			}
			beside, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
			require.NoError(t, err)
			for _, file := range beside {
				require.True(t, named[filepath.Base(file)], "%s is in no kustomization, so nobody applies it", file)
			}
		}
	})

	t.Run("MakesConfigMapsOfFilesThatExist", func(t *testing.T) {
		t.Parallel()
		for name, files := range generated(t) {
			for _, file := range files {
				require.FileExists(t, file, name)
			}
		}
	})

	// The volume must look to a service as the example folder does, or it would start with half a tenant.
	t.Run("MountsTheWholeExampleConfiguration", func(t *testing.T) {
		t.Parallel()
		var mounted []string
		maps := generated(t)
		pod := readManifests(t).patches["configuration.yaml"].Spec.Template.Spec
		for _, source := range pod.Volumes[0].Projected.Sources {
			for _, item := range source.ConfigMap.Items {
				mounted = append(mounted, item.Path)
				require.Equal(t, "config/example/"+item.Path, maps[source.ConfigMap.Name][item.Key])
			}
		}
		var wanted []string
		err := fs.WalkDir(deploy.Example(), ".", func(file string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				wanted = append(wanted, file)
			}
			return err
		})
		require.NoError(t, err)
		require.ElementsMatch(t, wanted, mounted)
	})

	t.Run("PatchesReachAWorkload", func(t *testing.T) {
		t.Parallel()
		m := readManifests(t)
		for file := range m.patches {
			names := patched(t, m, file)
			require.NotEmpty(t, names, file)
			for _, name := range names {
				require.Contains(t, m.workloads, name, file)
			}
		}
	})
}

// patched are the names of the workloads that a patch of the local overlay reaches, sorted.
func patched(t *testing.T, m *manifests, file string) []string {
	t.Helper()
	patches := readKustomizations(t)["kubernetes/local"].Patches
	at := slices.IndexFunc(patches, func(p patch) bool { return p.Path == file })
	require.GreaterOrEqual(t, at, 0, file)
	target := patches[at].Target
	switch {
	case target.Name != "":
		return strings.Split(target.Name, "|")
	case target.LabelSelector == "":
		return []string{m.patches[file].Metadata.Name}
	}
	label, value, _ := strings.Cut(target.LabelSelector, "=")
	var names []string
	for name, w := range m.workloads {
		if w.Kind == target.Kind && w.Metadata.Labels[label] == value {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// manifestOf is a resource's own file, or the kustomization of the folder that it is.
func manifestOf(resource string) string {
	if info, err := os.Stat(resource); err == nil && info.IsDir() {
		return filepath.Join(resource, "kustomization.yaml")
	}
	return resource
}
