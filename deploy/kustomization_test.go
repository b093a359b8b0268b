package deploy_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/deploy"
)

type kustomization struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Namespace  string   `yaml:"namespace"`
	Resources  []string `yaml:"resources"`
	Patches    []struct {
		Path   string `yaml:"path"`
		Target struct {
			Kind          string `yaml:"kind"`
			Name          string `yaml:"name"`
			LabelSelector string `yaml:"labelSelector"`
		} `yaml:"target"`
	} `yaml:"patches"`
	ConfigMapGenerator []struct {
		Name  string   `yaml:"name"`
		Files []string `yaml:"files"`
	} `yaml:"configMapGenerator"`
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
		for _, p := range readKustomizations(t)["kubernetes/local"].Patches {
			names := []string{m.patches[p.Path].Metadata.Name}
			if p.Target.Name != "" {
				names = strings.Split(p.Target.Name, "|")
			} else if p.Target.LabelSelector != "" {
				continue // all of a kind; whether each service has it is another test's
			}
			for _, name := range names {
				require.Contains(t, m.workloads, name, p.Path)
			}
		}
	})
}

// manifestOf is a resource's own file, or the kustomization of the folder that it is.
func manifestOf(resource string) string {
	if info, err := os.Stat(resource); err == nil && info.IsDir() {
		return filepath.Join(resource, "kustomization.yaml")
	}
	return resource
}
