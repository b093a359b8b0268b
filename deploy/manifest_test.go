package deploy_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// The structs below know the fields of Kubernetes that our manifests use and no others, so that a misspelt one cannot
// be read.

type metadata struct {
	Name   string            `yaml:"name"`
	Labels map[string]string `yaml:"labels"`
}

type selector struct {
	MatchLabels      map[string]string `yaml:"matchLabels"`
	MatchExpressions []struct {
		Key      string   `yaml:"key"`
		Operator string   `yaml:"operator"`
		Values   []string `yaml:"values"`
	} `yaml:"matchExpressions"`
}

// matches is the rule of Kubernetes for the operators that we use.
func (s selector) matches(labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if labels[key] != value {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		if e.Operator != "In" || !slices.Contains(e.Values, labels[e.Key]) {
			return false
		}
	}
	return true
}

type workload struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       struct {
		Replicas                *int     `yaml:"replicas"`
		ServiceName             string   `yaml:"serviceName"`
		Selector                selector `yaml:"selector"`
		BackoffLimit            int      `yaml:"backoffLimit"`
		TTLSecondsAfterFinished int      `yaml:"ttlSecondsAfterFinished"`
		Strategy                struct {
			RollingUpdate struct {
				MaxSurge       int `yaml:"maxSurge"`
				MaxUnavailable int `yaml:"maxUnavailable"`
			} `yaml:"rollingUpdate"`
		} `yaml:"strategy"`
		Template             template `yaml:"template"`
		VolumeClaimTemplates []struct {
			Metadata metadata `yaml:"metadata"`
			Spec     struct {
				AccessModes []string `yaml:"accessModes"`
				Resources   struct {
					Requests map[string]string `yaml:"requests"`
				} `yaml:"resources"`
			} `yaml:"spec"`
		} `yaml:"volumeClaimTemplates"`
	} `yaml:"spec"`
}

func (w *workload) replicas() int {
	if w.Spec.Replicas == nil {
		return 1
	}
	return *w.Spec.Replicas
}

// container is the one that a pod is there for. Only a patch adds another.
func (w *workload) container() *container { return &w.Spec.Template.Spec.Containers[0] }

// front is a Service.
type front struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       struct {
		Selector map[string]string `yaml:"selector"`
		Ports    []struct {
			Name       string `yaml:"name"`
			Port       int    `yaml:"port"`
			TargetPort string `yaml:"targetPort"`
		} `yaml:"ports"`
	} `yaml:"spec"`
}

type budget struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       struct {
		MinAvailable               int      `yaml:"minAvailable"`
		UnhealthyPodEvictionPolicy string   `yaml:"unhealthyPodEvictionPolicy"`
		Selector                   selector `yaml:"selector"`
	} `yaml:"spec"`
}

type peer struct {
	PodSelector       *selector `yaml:"podSelector"`
	NamespaceSelector *selector `yaml:"namespaceSelector"`
	IPBlock           *struct {
		CIDR   string   `yaml:"cidr"`
		Except []string `yaml:"except"`
	} `yaml:"ipBlock"`
}

type rule struct {
	From  []peer `yaml:"from"`
	To    []peer `yaml:"to"`
	Ports []struct {
		Port     int    `yaml:"port"`
		Protocol string `yaml:"protocol"`
	} `yaml:"ports"`
}

type networkPolicy struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       struct {
		PodSelector selector `yaml:"podSelector"`
		PolicyTypes []string `yaml:"policyTypes"`
		Ingress     []rule   `yaml:"ingress"`
		Egress      []rule   `yaml:"egress"`
	} `yaml:"spec"`
}

type secret struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   metadata          `yaml:"metadata"`
	StringData map[string]string `yaml:"stringData"`
}

type namespace struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
}

// manifests are all objects and patches of deploy/kubernetes, each by its name.
type manifests struct {
	workloads map[string]*workload
	patches   map[string]*workload // by file name
	services  map[string]*front
	budgets   map[string]*budget
	policies  map[string]*networkPolicy
	secrets   map[string]*secret
	spaces    map[string]*namespace
}

// apiVersions of the kinds that we use.
var apiVersions = map[string]string{
	"Deployment": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1", "PodDisruptionBudget": "policy/v1",
	"NetworkPolicy": "networking.k8s.io/v1", "Service": "v1", "Secret": "v1", "Namespace": "v1",
}

// readManifests reads every file under deploy/kubernetes, field by field.
func readManifests(t *testing.T) *manifests {
	t.Helper()
	m := &manifests{map[string]*workload{}, map[string]*workload{}, map[string]*front{}, map[string]*budget{},
		map[string]*networkPolicy{}, map[string]*secret{}, map[string]*namespace{}}
	patches := patchFiles(t)
	err := fs.WalkDir(os.DirFS("."), "kubernetes", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "kustomization.yaml" {
			return err
		}
		for _, document := range documents(t, file) {
			m.add(t, file, document, patches[file])
		}
		return nil
	})
	require.NoError(t, err)
	return m
}

// documents of a YAML file, each by itself.
func documents(t *testing.T, file string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var all [][]byte
	for _, document := range strings.Split(string(text), "\n---\n") {
		all = append(all, []byte(document))
	}
	return all
}

func (m *manifests) add(t *testing.T, file string, document []byte, patch bool) {
	t.Helper()
	var head struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
	}
	require.NoError(t, yaml.Unmarshal(document, &head), file)
	require.Contains(t, apiVersions, head.Kind, "%s: a kind that these tests do not know", file)
	require.Equal(t, apiVersions[head.Kind], head.APIVersion, "%s: %s", file, head.Kind)
	switch head.Kind {
	case "Service":
		put(t, m.services, file, document, func(s *front) string { return s.Metadata.Name })
	case "PodDisruptionBudget":
		put(t, m.budgets, file, document, func(b *budget) string { return b.Metadata.Name })
	case "NetworkPolicy":
		put(t, m.policies, file, document, func(p *networkPolicy) string { return p.Metadata.Name })
	case "Secret":
		put(t, m.secrets, file, document, func(s *secret) string { return s.Metadata.Name })
	case "Namespace":
		put(t, m.spaces, file, document, func(n *namespace) string { return n.Metadata.Name })
	default:
		into := m.workloads
		if patch {
			into = m.patches
		}
		put(t, into, file, document, func(w *workload) string {
			if patch {
				return path.Base(file)
			}
			return w.Metadata.Name
		})
	}
}

// put decodes one document strictly and keeps it under its name, which must be its own.
func put[T any](t *testing.T, into map[string]*T, file string, document []byte, name func(*T) string) {
	t.Helper()
	object := new(T)
	decodeStrictly(t, file, document, object)
	require.NotContains(t, into, name(object), "%s: declared twice", file)
	into[name(object)] = object
}

func decodeStrictly(t *testing.T, file string, document []byte, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(document), yaml.Strict())
	require.NoError(t, decoder.Decode(into), file)
	require.True(t, errors.Is(decoder.Decode(into), io.EOF), "%s: more than one document", file)
}
