package deploy_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// partOf is the label that all pods of the image carry, but the sandbox's.
const partOf = "app.kubernetes.io/part-of"

func TestKubernetes(t *testing.T) {
	t.Parallel()
	m := readManifests(t)

	t.Run("RunsEveryServiceAndNoOther", func(t *testing.T) {
		t.Parallel()
		wanted := []string{"proposer"} // which has no database, and so no place in the roster
		var declared []string
		for _, s := range roster.Services {
			wanted = append(wanted, s.Name)
		}
		for name, w := range m.workloads {
			if w.Kind == "Deployment" {
				declared = append(declared, name)
				require.Equal(t, []string{name}, w.container().Args)
				require.Equal(t, "holdpoint", w.container().Name, "patches find the container by this name")
				require.Equal(t, "holdpoint", w.Metadata.Labels[partOf], "patches find the Deployment by this label")
			}
		}
		require.ElementsMatch(t, wanted, declared)
	})

	t.Run("SelectsItsOwnPods", func(t *testing.T) {
		t.Parallel()
		for name, w := range m.workloads {
			labels := w.Spec.Template.Metadata.Labels
			require.Equal(t, w.Metadata.Labels, labels, name)
			if w.Kind != "Job" { // Kubernetes gives a Job's pods a label of its own
				require.NotEmpty(t, w.Spec.Selector.MatchLabels, name)
				require.Equal(t, []string{name}, m.selected(w.Spec.Selector), "pods of %s", name)
			}
			for _, spread := range w.Spec.Template.Spec.TopologySpreadConstraints {
				require.Equal(t, []string{name}, m.selected(spread.LabelSelector), "spread of %s", name)
			}
		}
	})

	t.Run("ServicesLeadToPortsOfOneWorkload", func(t *testing.T) {
		t.Parallel()
		for name, s := range m.services {
			require.Equal(t, []string{name}, m.selected(selector{MatchLabels: s.Spec.Selector}))
			for _, p := range s.Spec.Ports {
				require.NotZero(t, m.workloads[name].container().port(p.TargetPort), "%s: %s", name, p.TargetPort)
			}
		}
	})

	t.Run("WhatHasReplicasIsTakenOneAtATime", func(t *testing.T) {
		t.Parallel()
		var several []string
		for name, w := range m.workloads {
			if w.replicas() > 1 {
				several = append(several, name)
				require.Equal(t, []string{name}, m.selected(m.budgets[name].Spec.Selector), "budget of %s", name)
				require.Less(t, m.budgets[name].Spec.MinAvailable, w.replicas(), "a node with %s cannot be drained", name)
			}
		}
		require.ElementsMatch(t, several, slices.Collect(maps.Keys(m.budgets)))
	})

	t.Run("NetworkPoliciesSelectPodsAndTheirPorts", func(t *testing.T) {
		t.Parallel()
		for name, p := range m.policies {
			pods := m.selected(p.Spec.PodSelector)
			require.NotEmpty(t, pods, name)
			for _, r := range p.Spec.Ingress {
				for _, port := range r.Ports {
					heard := func(pod string) bool { return m.listens(pod, port.Port) }
					require.True(t, slices.ContainsFunc(pods, heard), "%s: nobody listens on %d", name, port.Port)
				}
				for _, from := range r.From {
					if from.PodSelector != nil {
						require.NotEmpty(t, m.selected(*from.PodSelector), name)
					}
				}
			}
		}
	})

	// Nothing may call out but what the policies for it allow.
	t.Run("EveryPodOfTheImageIsUnderAPolicyForWhatItCalls", func(t *testing.T) {
		t.Parallel()
		var ruled []string
		for _, p := range m.policies {
			if slices.Contains(p.Spec.PolicyTypes, "Egress") {
				ruled = append(ruled, m.selected(p.Spec.PodSelector)...)
			}
		}
		wanted := []string{"migrate", "proposer"}
		for _, s := range roster.Services {
			wanted = append(wanted, s.Name)
		}
		require.ElementsMatch(t, wanted, ruled)
	})

	t.Run("NoPodHasMoreRightsThanItNeeds", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "restricted", m.spaces["holdpoint"].Metadata.Labels["pod-security.kubernetes.io/enforce"])
		for name, w := range m.workloads {
			pod := w.Spec.Template.Spec
			require.Len(t, pod.Containers, 1, name)
			require.False(t, *pod.AutomountServiceAccountToken, name)
			require.True(t, pod.SecurityContext.RunAsNonRoot, name)
			require.NotZero(t, pod.SecurityContext.RunAsUser, name)
			require.Equal(t, "RuntimeDefault", pod.SecurityContext.SeccompProfile.Type, name)
			for _, c := range m.containers(t, name) {
				own := c.SecurityContext
				require.True(t, own.ReadOnlyRootFilesystem, c.Name)
				require.False(t, *own.AllowPrivilegeEscalation, c.Name)
				require.Equal(t, []string{"ALL"}, own.Capabilities.Drop, c.Name)
			}
		}
	})

	t.Run("EveryContainerSaysWhatItNeeds", func(t *testing.T) {
		t.Parallel()
		for name := range m.workloads {
			for _, c := range m.containers(t, name) {
				require.NotEmpty(t, c.Resources.Requests["cpu"], c.Name)
				require.NotEmpty(t, c.Resources.Requests["memory"], c.Name)
				require.NotEmpty(t, c.Resources.Limits["memory"], c.Name)
				require.False(t, strings.HasSuffix(c.Image, ":latest"), c.Name)
			}
		}
	})

	t.Run("MountsOnlyWhatIsDeclared", func(t *testing.T) {
		t.Parallel()
		maps := generated(t)
		for name, w := range m.workloads {
			declared := map[string]bool{}
			for _, v := range w.Spec.Template.Spec.Volumes {
				declared[v.Name] = true
				if v.ConfigMap != nil {
					require.Contains(t, maps, v.ConfigMap.Name, name)
				}
			}
			for _, claim := range w.Spec.VolumeClaimTemplates {
				declared[claim.Metadata.Name] = true
			}
			for _, mount := range w.container().VolumeMounts {
				require.True(t, declared[mount.Name], "%s mounts %s", name, mount.Name)
				delete(declared, mount.Name)
			}
			require.Empty(t, declared, "%s declares a volume that it does not mount", name)
		}
	})
}

// selected are the names of the workloads whose pods a selector finds, sorted.
func (m *manifests) selected(s selector) []string {
	var names []string
	for name, w := range m.workloads {
		if s.matches(w.Spec.Template.Metadata.Labels) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// containers of a workload's pods on one's own machine: its own, and those that patches add to it, whole.
func (m *manifests) containers(t *testing.T, workload string) []container {
	t.Helper()
	all := slices.Clone(m.workloads[workload].Spec.Template.Spec.Containers)
	for file, patch := range m.patches {
		if slices.Contains(patched(t, m, file), workload) {
			require.Equal(t, all[0].Name, patch.container().Name, "%s changes the service's own container first", file)
			all = append(all, patch.Spec.Template.Spec.Containers[1:]...)
		}
	}
	return all
}

func (m *manifests) listens(workload string, on int) bool {
	ports := m.workloads[workload].container().Ports
	return slices.ContainsFunc(ports, func(p port) bool { return p.ContainerPort == on })
}
