package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"
)

const (
	callerToken = "a-token-of-a-caller"
	readerToken = "a-token-of-a-reader"
)

// mount writes files as the kubelet does: links to a folder that one rename replaces.
func mount(t *testing.T, folder, version string, files map[string]string) {
	t.Helper()
	errs := []error{os.MkdirAll(filepath.Join(folder, version), 0o755)}
	for name, text := range files {
		errs = append(errs, os.WriteFile(filepath.Join(folder, version, name), []byte(text), 0o644))
		if link := filepath.Join(folder, name); version == "..1" {
			errs = append(errs, os.Symlink(filepath.Join("..data", name), link))
		}
	}
	next := filepath.Join(folder, "..data_tmp")
	errs = append(errs, os.Symlink(version, next), os.Rename(next, filepath.Join(folder, "..data")))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A pod is the process that a deployment's container is.
type pod struct {
	HTTP  string `json:"endpoint"`
	Admin string `json:"admin"`
	GRPC  string `json:"grpc"`
}

// start runs the container of the service with the arguments of the chart, on a table in a folder, with files below
// another folder and free ports.
func start(t *testing.T, d *apps.Deployment, files string) (p pod) {
	t.Helper()
	local := filepath.Join(t.TempDir(), "limits")
	table := "--table=" + flagOf(d, "table")
	if out, err := exec.CommandContext(t.Context(), binary(t), "table", "create", "--local", local, table).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	args := []string{}
	for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
		arg = strings.Replace(arg, "/etc/zae-limiter", files, 1)
		if address, port, found := strings.Cut(arg, "=0.0.0.0:"); found && port != "" {
			arg = address + "=0.0.0.0:0"
		}
		args = append(args, arg)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary(t), append(args, "--local="+local, "--output=json")...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the test's context has ended by then
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("the pod ends with %v\n%s", err, log.String())
		}
	})
	if err := json.NewDecoder(out).Decode(&p); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	return p
}

// ask sends a request with a token, and returns the status and the body of the answer.
func ask(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// A pod of the chart serves: its probes need no token, calls and metrics do, and rules that the kubelet replaces come into use
// without a restart.
func TestAPodServes(t *testing.T) {
	t.Parallel()
	for name, values := range map[string][2]string{
		"rules": {
			"envoy: {rules: {domains: {gateway: [{entries: [tenant], entity: '{tenant}', resource: llm, take: {rpm: 1}}]}}}",
			"envoy: {rules: {domains: {gateway: [{entries: [key], entity: '{key}', resource: llm, take: {rpm: 1}}]}}}",
		},
		"files of envoyproxy/ratelimit": {
			"envoy: {ratelimitConfig: {a.yaml: {domain: a, descriptors: [{key: tenant, rate_limit: {unit: minute, requests_per_unit: 5}}]}}}",
			"envoy: {ratelimitConfig: {a.yaml: {domain: a, descriptors: [{key: tenant, rate_limit: {unit: hour, requests_per_unit: 5}}]}}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const more = "\nfallback: ['rpm:2/min']\ndrainSeconds: 0\nleaseKeySecret: {name: leases}\n"
			r, changed := install(t, values[0]+more, "zae-limiter"), install(t, values[1]+more, "zae-limiter")
			files := t.TempDir()
			mount(t, filepath.Join(files, "tokens"), "..1", map[string]string{"tokens": callerToken + "\n" + readerToken + " reader\n"})
			mount(t, filepath.Join(files, "leases"), "..1", map[string]string{"keys": strings.Repeat("k", 40) + "\n"})
			mount(t, filepath.Join(files, "envoy"), "..1", r.rules)
			p := start(t, r.service, files)
			c := r.service.Spec.Template.Spec.Containers[0]
			for _, probe := range []*core.Probe{c.LivenessProbe, c.ReadinessProbe} {
				if status, text := ask(t, http.MethodGet, p.Admin+probe.HTTPGet.Path, "", ""); status != http.StatusOK {
					t.Errorf("%s answers %d %s", probe.HTTPGet.Path, status, text)
				}
			}
			const call = `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":2}}`
			for _, tt := range []struct {
				method, url, token, body string
				want                     int
			}{
				{http.MethodPost, p.HTTP + "/v1/acquire", callerToken, call, http.StatusOK},
				{http.MethodPost, p.HTTP + "/v1/acquire", callerToken, call, http.StatusTooManyRequests},
				{http.MethodPost, p.HTTP + "/v1/acquire", "", call, http.StatusUnauthorized},
				{http.MethodGet, p.HTTP + "/metrics", callerToken, "", http.StatusNotFound},
				{http.MethodGet, p.Admin + "/metrics", readerToken, "", http.StatusOK},
				{http.MethodGet, p.Admin + "/metrics", "", "", http.StatusUnauthorized},
			} {
				if status, text := ask(t, tt.method, tt.url, tt.token, tt.body); status != tt.want {
					t.Errorf("%s with the token %q answers %d, want %d: %.200s", tt.url, tt.token, status, tt.want, text)
				}
			}
			if p.GRPC == "" || maps.Equal(r.rules, changed.rules) {
				t.Fatalf("Envoy is not served at %+v, or the rules are the same", p)
			}
			loads := func() (state struct{ Loads, Failures int }) {
				_, text := ask(t, http.MethodGet, p.Admin+"/config", readerToken, "")
				if err := json.Unmarshal([]byte(text), &state); err != nil {
					t.Fatalf("%v: %s", err, text)
				}
				return state
			}
			before := loads()
			mount(t, filepath.Join(files, "envoy"), "..2", changed.rules)
			for loads() == before { // the service looks every two seconds
				time.Sleep(100 * time.Millisecond)
			}
			if after := loads(); after.Loads != before.Loads+1 || after.Failures != before.Failures {
				t.Errorf("changed rules are not in use: %+v, then %+v", before, after)
			}
		})
	}
}
