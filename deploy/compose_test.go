package deploy_test

import (
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// The file for Docker Compose is valid, and its services run commands that exist, as nobody, with files that are mounted.
func TestTheComposeFile(t *testing.T) {
	t.Parallel()
	const file = "../examples/compose/compose.yaml"
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: path.Dir(file), ConfigFiles: []types.ConfigFile{{Filename: file}}, Environment: types.Mapping{"ZAEL_IMAGE": "zae-limiter:test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	program := binary(t)
	for _, s := range project.Services {
		if out, err := exec.CommandContext(t.Context(), program, append(slices.Clone(s.Command), "--help")...).CombinedOutput(); err != nil {
			t.Errorf("the program refuses %q: %v\n%s", s.Command, err, out)
		}
		if s.Image != "zae-limiter:test" || s.User != "65532:65532" || !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
			t.Errorf("%s has another image, or rights that it does not need: %+v", s.Name, s)
		}
		for _, word := range s.Command {
			name, found := strings.CutPrefix(word, "--token-file=/run/secrets/")
			if found && (len(s.Secrets) != 1 || s.Secrets[0].Source != name || project.Secrets[name].File == "") {
				t.Errorf("%s has no secret %s: %+v", s.Name, name, s.Secrets)
			}
			if _, dir, ok := strings.Cut(word, "/var/lib/zae-limiter"); ok && (dir != "/limits" || s.Volumes[0].Target != "/var/lib/zae-limiter") {
				t.Errorf("%s keeps its table in %s, and has %+v", s.Name, word, s.Volumes)
			}
		}
	}
	serve := project.Services["limits"]
	if d := serve.DependsOn["table"]; d.Condition != types.ServiceConditionCompletedSuccessfully || len(project.Services) != 2 {
		t.Errorf("the table may be made while it is served: %+v", d)
	}
	const drain = (5 + 30 + 2*5) * time.Second // the defaults of --drain-wait, --max-wait and twice --timeout
	if grace := serve.StopGracePeriod; grace == nil || time.Duration(*grace) <= drain {
		t.Errorf("the service is killed after %v, and a drain takes %v", grace, drain)
	}
	for _, p := range serve.Ports {
		if p.HostIP != "127.0.0.1" {
			t.Errorf("the service is published at %+v", p)
		}
	}
}
