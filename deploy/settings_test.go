package deploy_test

import (
	"bytes"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kelseyhightower/envconfig"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/deploy"
	"github.com/holdpoint/holdpoint/pkg/postgres"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/services/approval"
	"github.com/holdpoint/holdpoint/services/dispatcher"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
	"github.com/holdpoint/holdpoint/services/intake"
	"github.com/holdpoint/holdpoint/services/proposer"
	"github.com/holdpoint/holdpoint/services/reconciler"
	"github.com/holdpoint/holdpoint/services/relay"
)

// ownSettings of the services that have some.
func ownSettings(name string) any {
	switch name {
	case "intake":
		return new(intake.Settings)
	case "relay":
		return new(relay.Settings)
	case "approval":
		return new(approval.Settings)
	case "dispatcher":
		return new(dispatcher.Settings)
	case "proposer":
		return new(proposer.Settings)
	case "reconciler":
		return new(reconciler.Settings)
	default:
		return new(struct{})
	}
}

// known are the variables that a service reads, as its structs declare them, and those of the example configuration.
func known(t *testing.T, name string) []string {
	t.Helper()
	var names bytes.Buffer
	const each = "{{range .}}{{usage_key .}}\n{{end}}"
	require.NoError(t, envconfig.Usagef("HOLDPOINT", new(service.Settings), &names, each))
	require.NoError(t, envconfig.Usagef("HOLDPOINT_"+name, ownSettings(name), &names, each))
	all := append(strings.Fields(names.String()), "GOMEMLIMIT") // the Go runtime's own
	if name == "dispatcher" {
		all = append(all, "AI_ACTIONS_ENABLED")
	}
	return append(all, configured(t)...)
}

// configured are the variables that the example configuration reads.
func configured(t *testing.T) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(deploy.Example(), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(deploy.Example(), file)
		for _, found := range regexp.MustCompile(`\$\{([A-Z_]+)(:-[^}]*)?\}`).FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
		return err
	})
	require.NoError(t, err)
	return names
}

// TestSettings loads every Deployment into the structs of its service, and holds the manifest to what they say.
func TestSettings(t *testing.T) {
	m := readManifests(t)
	for _, row := range roster.Services {
		w := m.workloads[row.Name]
		t.Run(row.Name, func(t *testing.T) {
			env := m.load(t, w)
			names := known(t, row.Name)
			for name := range env {
				require.Contains(t, names, name, "no setting is called that")
			}
			var common service.Settings
			require.NoError(t, service.Load("", &common))
			own := ownSettings(row.Name)
			require.NoError(t, service.Load(strings.ToUpper(row.Name), own))

			require.NotEmpty(t, common.DatabaseURL)
			require.NotEmpty(t, common.NatsURL)
			require.Equal(t, "/etc/holdpoint", common.ConfigDir)
			requireProbes(t, w.container(), common.OpsAddr)
			requireGrace(t, w, common.DrainTimeout, m.services[row.Name] != nil)
			switch own := own.(type) {
			case *intake.Settings:
				require.Equal(t, own.Addr, address(w.container().port("http")))
			case *reconciler.Settings:
				require.Equal(t, own.Addr, address(w.container().port("http")))
			case *approval.Settings:
				require.Equal(t, own.Addr, address(w.container().port("http")))
				require.NotEmpty(t, own.ClientSecret)
				require.Empty(t, own.Issuer+own.PublicURL, "who vouches for people, and where, is an overlay's decision")
			}
			enabled, decided := env["AI_ACTIONS_ENABLED"]
			require.Equal(t, row.Name == "dispatcher", decided, "the dispatcher says whether it sends, and nobody else")
			require.NotEqual(t, "true", enabled, "sending is an overlay's decision (D9)")
		})
	}

	t.Run("TheProposerHasTheAPIAndAKeyForEachTenantAndNothingElse", func(t *testing.T) {
		w := m.workloads["proposer"]
		env := m.load(t, w)
		for name := range env {
			require.Contains(t, known(t, "proposer"), name, "no setting is called that")
		}
		require.NotContains(t, env, "HOLDPOINT_DATABASE_URL")
		require.NotContains(t, env, "HOLDPOINT_NATS_URL")
		var common service.Settings
		require.NoError(t, service.Load("", &common))
		var own proposer.Settings
		require.NoError(t, service.Load("PROPOSER", &own))
		require.Equal(t, "http://intake"+address(m.workloads["intake"].container().port("http")), own.IntakeURL)
		require.Equal(t, own.APIKeysDir, w.container().VolumeMounts[0].MountPath)
		secret := m.secrets[w.Spec.Template.Spec.Volumes[0].Secret.SecretName]
		require.Equal(t, map[string]string{"demo": roster.DemoKey}, secret.StringData)
		requireProbes(t, w.container(), common.OpsAddr)
		requireGrace(t, w, common.DrainTimeout, false)
	})

	t.Run("PatchesSetOnlyWhatTheirServicesKnow", func(t *testing.T) {
		for file, patch := range m.patches {
			for _, name := range patched(t, m, file) {
				for _, v := range patch.container().Env {
					require.Contains(t, known(t, name), v.Name, "%s, for %s", file, name)
				}
			}
		}
	})

	t.Run("WhoeverCallsTheSandboxMayAndKnowsWhere", func(t *testing.T) {
		callers := m.policies["sandbox-in"].Spec.Ingress[0].From[0].PodSelector
		require.ElementsMatch(t, m.selected(*callers), patched(t, m, "providers.yaml"))
		require.Equal(t, "HOLDPOINT_SANDBOX_URL", m.patches["providers.yaml"].container().Env[0].Name)
	})

	t.Run("TheLocalDispatcherSends", func(t *testing.T) {
		enabled := []variable{{Name: "AI_ACTIONS_ENABLED", Value: "true"}}
		require.Equal(t, enabled, m.patches["actions.yaml"].container().Env)
	})

	t.Run("TheMigrationNeedsOnlyTheDatabase", func(t *testing.T) {
		env := m.load(t, m.workloads["migrate"])
		require.Len(t, env, 1)
		require.Contains(t, env["HOLDPOINT_DATABASE_URL"], "holdpoint_migrate_login")
	})
}

// load sets a container's variables as Kubernetes would, with the local Secrets.
func (m *manifests) load(t *testing.T, w *workload) map[string]string {
	t.Helper()
	for _, name := range slices.Clone(os.Environ()) {
		if name, value, _ := strings.Cut(name, "="); strings.HasPrefix(name, "HOLDPOINT_") {
			t.Setenv(name, value) // so that it comes back
			require.NoError(t, os.Unsetenv(name))
		}
	}
	env := map[string]string{}
	for _, v := range w.container().Env {
		require.NotContains(t, env, v.Name, "set twice")
		env[v.Name] = v.Value
		if v.ValueFrom != nil {
			ref := v.ValueFrom.SecretKeyRef
			require.Contains(t, m.secrets, ref.Name)
			require.Contains(t, m.secrets[ref.Name].StringData, ref.Key)
			env[v.Name] = m.secrets[ref.Name].StringData[ref.Key]
		}
		t.Setenv(v.Name, env[v.Name])
	}
	return env
}

func requireProbes(t *testing.T, c *container, opsAddr string) {
	t.Helper()
	require.Equal(t, opsAddr, address(c.port("ops")))
	for _, p := range []*probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		require.Equal(t, "ops", p.HTTPGet.Port)
	}
	require.Equal(t, "/healthz", c.StartupProbe.HTTPGet.Path)
	require.Equal(t, "/healthz", c.LivenessProbe.HTTPGet.Path)
	require.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path)
	require.Greater(t, c.ReadinessProbe.TimeoutSeconds, 2, "/readyz itself waits up to 2 s for what it asks")
	// A change of rules keeps intake from serving for a statement's timeout and a second (K15).
	starting := time.Duration(c.StartupProbe.PeriodSeconds*c.StartupProbe.FailureThreshold) * time.Second
	require.Greater(t, starting, postgres.DefaultStatementTimeout+time.Second)
}

// requireGrace: whoever is told to stop gets the pause before the stop, its drain, and the time of one more statement;
// then the kernel ends it.
func requireGrace(t *testing.T, w *workload, drain time.Duration, fronted bool) {
	t.Helper()
	grace := time.Duration(w.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	pause := time.Duration(w.container().Lifecycle.PreStop.Sleep.Seconds) * time.Second
	require.Equal(t, pause+drain+postgres.DefaultStatementTimeout, grace)
	require.Equal(t, fronted, pause > 0, "what a Service leads to waits until it no longer does")
}
