package deploy_test

import "strconv"

// template is a pod, as workloads declare it.
type template struct {
	Metadata metadata `yaml:"metadata"`
	Spec     struct {
		RestartPolicy                 string          `yaml:"restartPolicy"`
		TerminationGracePeriodSeconds int             `yaml:"terminationGracePeriodSeconds"`
		AutomountServiceAccountToken  *bool           `yaml:"automountServiceAccountToken"`
		SecurityContext               securityContext `yaml:"securityContext"`
		TopologySpreadConstraints     []struct {
			MaxSkew           int      `yaml:"maxSkew"`
			TopologyKey       string   `yaml:"topologyKey"`
			WhenUnsatisfiable string   `yaml:"whenUnsatisfiable"`
			LabelSelector     selector `yaml:"labelSelector"`
		} `yaml:"topologySpreadConstraints"`
		Containers []container `yaml:"containers"`
		Volumes    []volume    `yaml:"volumes"`
	} `yaml:"spec"`
}

type securityContext struct {
	RunAsNonRoot             bool  `yaml:"runAsNonRoot"`
	RunAsUser                int   `yaml:"runAsUser"`
	RunAsGroup               int   `yaml:"runAsGroup"`
	FSGroup                  int   `yaml:"fsGroup"`
	ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
	AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
	Capabilities             struct {
		Drop []string `yaml:"drop"`
	} `yaml:"capabilities"`
	SeccompProfile struct {
		Type string `yaml:"type"`
	} `yaml:"seccompProfile"`
}

type container struct {
	Name            string     `yaml:"name"`
	Image           string     `yaml:"image"`
	ImagePullPolicy string     `yaml:"imagePullPolicy"`
	Command         []string   `yaml:"command"`
	Args            []string   `yaml:"args"`
	Ports           []port     `yaml:"ports"`
	Env             []variable `yaml:"env"`
	StartupProbe    *probe     `yaml:"startupProbe"`
	LivenessProbe   *probe     `yaml:"livenessProbe"`
	ReadinessProbe  *probe     `yaml:"readinessProbe"`
	Lifecycle       struct {
		PreStop struct {
			Sleep struct {
				Seconds int `yaml:"seconds"`
			} `yaml:"sleep"`
		} `yaml:"preStop"`
	} `yaml:"lifecycle"`
	Resources struct {
		Requests map[string]string `yaml:"requests"`
		Limits   map[string]string `yaml:"limits"`
	} `yaml:"resources"`
	SecurityContext securityContext `yaml:"securityContext"`
	VolumeMounts    []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

// port of a name; 0 where there is none.
func (c *container) port(name string) int {
	for _, p := range c.Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}

type port struct {
	Name          string `yaml:"name"`
	ContainerPort int    `yaml:"containerPort"`
}

type variable struct {
	Name      string `yaml:"name"`
	Value     string `yaml:"value"`
	ValueFrom *struct {
		SecretKeyRef struct {
			Name string `yaml:"name"`
			Key  string `yaml:"key"`
		} `yaml:"secretKeyRef"`
	} `yaml:"valueFrom"`
}

type probe struct {
	HTTPGet *struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
	Exec *struct {
		Command []string `yaml:"command"`
	} `yaml:"exec"`
	PeriodSeconds    int `yaml:"periodSeconds"`
	FailureThreshold int `yaml:"failureThreshold"`
	TimeoutSeconds   int `yaml:"timeoutSeconds"`
}

type configMap struct {
	Name  string `yaml:"name"`
	Items []struct {
		Key  string `yaml:"key"`
		Path string `yaml:"path"`
	} `yaml:"items"`
}

type volume struct {
	Name      string     `yaml:"name"`
	EmptyDir  *struct{}  `yaml:"emptyDir"`
	ConfigMap *configMap `yaml:"configMap"`
	Secret    *struct {
		SecretName string `yaml:"secretName"`
	} `yaml:"secret"`
	Projected *struct {
		Sources []struct {
			ConfigMap configMap `yaml:"configMap"`
		} `yaml:"sources"`
	} `yaml:"projected"`
}

// address is how settings write a port on every interface.
func address(port int) string { return ":" + strconv.Itoa(port) }
