package cli_test

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/doctest"
)

// A deployment is what the documents use of a Deployment of Kubernetes. Other keys are mistakes.
type deployment struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   map[string]string `yaml:"metadata"`
	Spec       struct {
		Replicas int               `yaml:"replicas"`
		Strategy map[string]string `yaml:"strategy"`
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"selector"`
		Template struct {
			Metadata struct {
				Labels map[string]string `yaml:"labels"`
			} `yaml:"metadata"`
			Spec struct {
				ServiceAccountName string      `yaml:"serviceAccountName"`
				Containers         []container `yaml:"containers"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type container struct {
	Name           string              `yaml:"name"`
	Image          string              `yaml:"image"`
	Args           []string            `yaml:"args"`
	Env            []map[string]string `yaml:"env"`
	Ports          []port              `yaml:"ports"`
	LivenessProbe  probe               `yaml:"livenessProbe"`
	ReadinessProbe probe               `yaml:"readinessProbe"`
	Resources      struct {
		Requests map[string]string `yaml:"requests"`
	} `yaml:"resources"`
	SecurityContext map[string]bool `yaml:"securityContext"`
}

type port struct {
	Name          string `yaml:"name"`
	ContainerPort string `yaml:"containerPort"`
}

type probe struct {
	HTTPGet struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
}

// A Deployment that is copied from a document runs a command that exists. It has one replica, also
// during an update, and probes that the command answers.
func TestTheDeploymentsOfTheDocumentsWork(t *testing.T) {
	t.Parallel()
	count := 0
	for _, b := range doctest.Blocks(t, root, doctest.Data) {
		if !strings.Contains(b.Text, "kind: Deployment\n") {
			continue
		}
		count++
		var d deployment
		decoder := yaml.NewDecoder(strings.NewReader(b.Text))
		decoder.KnownFields(true)
		if err := decoder.Decode(&d); err != nil {
			t.Errorf("%s:%d: %v", b.Document, b.Line, err)
			continue
		}
		s := d.Spec
		if s.Replicas != 1 || s.Strategy["type"] != "Recreate" || s.Selector.MatchLabels["app"] != s.Template.Metadata.Labels["app"] {
			t.Errorf("%s:%d: not one replica at a time, or the selector does not fit: %+v", b.Document, b.Line, s)
		}
		c := s.Template.Spec.Containers[0]
		if err := cli.Parse(c.Args, true); err != nil {
			t.Errorf("%s:%d: %v", b.Document, b.Line, err)
		}
		address := ":" + c.Ports[0].ContainerPort
		if i := slices.Index(c.Args, "--metrics-addr"); i < 0 || c.Args[i+1] != address {
			t.Errorf("%s:%d: the probes ask %s, and the command is %q", b.Document, b.Line, address, c.Args)
		}
		live, ready := c.LivenessProbe.HTTPGet, c.ReadinessProbe.HTTPGet
		if live.Path != "/livez" || ready.Path != "/healthz" || live.Port != c.Ports[0].Name || ready.Port != c.Ports[0].Name {
			t.Errorf("%s:%d: the probes ask %+v and %+v", b.Document, b.Line, live, ready)
		}
	}
	if count == 0 {
		t.Error("no document has a Deployment: delete this test")
	}
}
