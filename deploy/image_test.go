package deploy_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// instruction is one of a Dockerfile, with its continued lines in one.
type instruction struct{ name, args string }

func readDockerfile(t *testing.T) []instruction {
	t.Helper()
	text, err := os.ReadFile("image/Dockerfile")
	require.NoError(t, err)
	var all []instruction
	for _, line := range strings.Split(strings.ReplaceAll(string(text), "\\\n", " "), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, args, _ := strings.Cut(line, " ")
		all = append(all, instruction{name, strings.TrimSpace(args)})
	}
	return all
}

// of are the arguments of all instructions of a name.
func of(all []instruction, name string) []string {
	var args []string
	for _, i := range all {
		if i.name == name {
			args = append(args, i.args)
		}
	}
	return args
}

// copied are the paths of the repository that go into the image's build.
func copied(all []instruction) []string {
	var sources []string
	for _, args := range of(all, "COPY") {
		if words := strings.Fields(args); !strings.HasPrefix(words[0], "--from") {
			sources = append(sources, words[:len(words)-1]...)
		}
	}
	return sources
}

func TestImage(t *testing.T) {
	t.Parallel()
	all := readDockerfile(t)

	t.Run("HasKnownInstructionsOnly", func(t *testing.T) {
		t.Parallel()
		for _, i := range all {
			require.Contains(t, []string{"ARG", "FROM", "WORKDIR", "ENV", "COPY", "RUN", "USER", "ENTRYPOINT"}, i.name)
		}
	})

	t.Run("EndsInAnEmptyStageThatIsNotRoot", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{"${GO_IMAGE} AS build", "scratch"}, of(all, "FROM"))
		last := slices.IndexFunc(all, func(i instruction) bool { return i.args == "scratch" })
		final := all[last:]
		require.Regexp(t, `^[1-9]\d*:[1-9]\d*$`, of(final, "USER")[0])
		require.Equal(t, []string{`["/holdpoint"]`}, of(final, "ENTRYPOINT"))
		require.Contains(t, of(final, "COPY"), "--from=build /out/holdpoint /holdpoint")
		require.Empty(t, of(final, "RUN"), "there is no shell")
	})

	t.Run("BuildsAStaticBinaryWithTheToolchainOfTheModule", func(t *testing.T) {
		t.Parallel()
		module, err := os.ReadFile("../go.mod")
		require.NoError(t, err)
		toolchain := regexp.MustCompile(`(?m)^toolchain go(\S+)$`).FindSubmatch(module)
		require.NotNil(t, toolchain)
		require.Equal(t, []string{"GO_IMAGE=golang:" + string(toolchain[1])}, of(all, "ARG"))
		require.Contains(t, of(all, "ENV")[0], "CGO_ENABLED=0")
		require.Contains(t, of(all, "RUN")[1], "./services/holdpoint")
	})

	t.Run("CopiesEveryFolderWithSources", func(t *testing.T) {
		t.Parallel()
		sources := copied(all)
		for _, source := range sources {
			_, err := os.Stat(filepath.Join("..", source))
			require.NoError(t, err)
		}
		folders, err := filepath.Glob("../*/")
		require.NoError(t, err)
		for _, folder := range folders {
			name := path.Base(folder)
			within := func(source string) bool { return source == name || strings.HasPrefix(source, name+"/") }
			require.True(t, slices.ContainsFunc(sources, within), name)
		}
	})

	t.Run("IgnoresAllButWhatItCopies", func(t *testing.T) {
		t.Parallel()
		text, err := os.ReadFile("image/Dockerfile.dockerignore")
		require.NoError(t, err)
		var let []string
		for _, line := range strings.Split(string(text), "\n") {
			if name, ok := strings.CutPrefix(line, "!"); ok {
				let = append(let, name)
			}
		}
		require.ElementsMatch(t, copied(all), let)
	})
}
