//go:build conformance

package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/doctest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/s3test"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// around is the program that has a block of Python in it, indented.
const around = `
import asyncio
from zae_limiter import RateLimiter, Repository

async def ask_model():
    return 700

async def main():
%s
asyncio.run(main())
`

// The Python package runs the code that a document shows as its own, on a table of this project.
func TestThePythonOfTheDocumentsRuns(t *testing.T) {
	t.Parallel()
	for _, b := range doctest.Blocks(t, "../../../../..", doctest.Python) {
		served := serve(t)
		limits := documented(t, served)
		var indented strings.Builder
		for line := range strings.Lines(b.Text) {
			indented.WriteString("    " + line)
		}
		cmd := exec.CommandContext(t.Context(), peers.Python(t), "-c", fmt.Sprintf(around, &indented))
		cmd.Env = append(served.Environment, "PYTHONDONTWRITEBYTECODE=1", "AWS_EC2_METADATA_DISABLED=true")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s:%d: %v\n%s", b.Document, b.Line, err, out)
		}
		left, err := limits.Available(t.Context(), limiter.Request{Entity: "key-1", Resource: "gpt-4", Consume: map[string]int64{"rpm": 0, "tpm": 0}})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int64{}
		for _, a := range left {
			got[a.Limit.Name] = a.Available
		}
		if diff := cmp.Diff(map[string]int64{"rpm": 9, "tpm": 300}, got); diff != "" {
			t.Errorf("%s:%d: what it leaves of 10 and 1,000 tokens (-want +got):\n%s", b.Document, b.Line, diff)
		}
	}
}

// documented makes the table and the limits that the documents take for granted.
func documented(t *testing.T, served *peers.Served) *limiter.Limiter {
	t.Helper()
	const table, namespace = "limits", "prod"
	if err := dynamo.CreateTable(t.Context(), served.Client, dynamo.TableOptions{Name: table}); err != nil {
		t.Fatal(err)
	}
	namespaces, err := admin.NewNamespaces(dynamo.Options{API: served.Client, Table: table})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Register(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	store, err := dynamo.Open(t.Context(), dynamo.Options{API: served.Client, Table: table, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.SetLimits(t.Context(), limiter.ConfigKey{Resource: "gpt-4"}, []limiter.Limit{limiter.PerDay("rpm", 10), limiter.PerDay("tpm", 1000)}); err != nil {
		t.Fatal(err)
	}
	limits, err := limiter.New(store, limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limits.Close() })
	return limits
}

// counterparts run the blocks that need a real counterpart, by its name in the mark.
var counterparts = map[string]func(*testing.T, string){"locust": withLocust, "moto": withMoto, "s3": withArchive}

// The commands of the documents that need a counterpart run with it.
func TestTheDocumentsRunWithCounterparts(t *testing.T) {
	t.Parallel()
	for _, b := range doctest.Blocks(t, "../../../../..", doctest.Counterpart) {
		with, ok := counterparts[b.Argument]
		if !ok {
			t.Errorf("%s:%d: the tests have no %s", b.Document, b.Line, b.Argument)
			continue
		}
		t.Run(fmt.Sprintf("%s:%d", b.Document, b.Line), func(t *testing.T) {
			t.Parallel()
			with(t, b.Text)
		})
	}
}

// withLocust runs commands on free ports: a worker joins the master, and what the master starts is
// carried out.
func withLocust(t *testing.T, text string) {
	t.Helper()
	master, web, engine := freePort(t), freePort(t), freePort(t)
	served := serve(t)
	if err := dynamo.CreateTable(t.Context(), served.Client, dynamo.TableOptions{Name: "zae-limiter"}); err != nil {
		t.Fatal(err)
	}
	text = strings.NewReplacer(":5557", ":"+master, ":8000", ":"+engine, " -t 1m", " -t 5s").Replace(inBackground(text))
	environment := append(served.Environment, "LOCUST_MASTER_BIND_PORT="+master, "LOCUST_WEB_PORT="+web)
	script := start(t, environment, text)
	if !strings.Contains(text, "--headless") {
		swarm(t, "http://127.0.0.1:"+web)
		return
	}
	for range 2 {
		start(t, environment, "zae-limiter loadtest worker --locust 127.0.0.1:"+master+" --namespace load simple")
	}
	if err := <-script; err != nil {
		t.Error(err)
	}
}

// withMoto runs commands of the AWS command line on an account that has a role and a policy.
func withMoto(t *testing.T, text string) {
	t.Helper()
	const before = `set -e
aws iam create-role --role-name team-a --assume-role-policy-document '{"Version": "2012-10-17", "Statement": []}'
aws iam create-policy --policy-name limits-NS-ACQ --policy-document \
  '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": "*"}]}'
`
	const after = `
test "$(aws iam list-role-tags --role-name team-a --query Tags[0].Value --output text)" = ns1
test "$(aws iam list-attached-role-policies --role-name team-a --query AttachedPolicies[0].PolicyName --output text)" = limits-NS-ACQ
`
	text = strings.NewReplacer("Value=ID", "Value=ns1", "ARN_OF_NS_ACQ", "arn:aws:iam::123456789012:policy/limits-NS-ACQ").Replace(text)
	if err := <-start(t, atMoto(peers.Moto(t)), before+text+after); err != nil {
		t.Error(err)
	}
}

// atMoto is the environment of clients of moto.
func atMoto(url string) []string {
	return []string{
		"AWS_ENDPOINT_URL=" + url, "AWS_REGION=" + peers.Region, "AWS_DEFAULT_REGION=" + peers.Region,
		"AWS_ACCESS_KEY_ID=" + peers.AccessKey, "AWS_SECRET_ACCESS_KEY=" + peers.SecretKey,
	}
}

// withArchive runs commands with an archive of two days, in which an entity has an event each.
func withArchive(t *testing.T, text string) {
	t.Helper()
	url := peers.Moto(t)
	client := s3test.OnMoto(t, url, trailBucket)
	a, err := archive.Open(t.Context(), archive.Options{API: client, Location: archive.Location{Bucket: trailBucket, Prefix: "limits"}})
	if err != nil {
		t.Fatal(err)
	}
	for day := range 2 {
		at := time.Date(2026, 1, 2+day, 3, 4, 5, 0, time.UTC)
		events := []audit.TrailEvent{{NamespaceID: "ns1", Event: audit.Event{ID: "01KDX8W8P80000000000000000", Time: at, Action: audit.LimitsSet, Entity: "key-1"}}}
		if _, err := a.Put(t.Context(), at, events); err != nil {
			t.Fatal(err)
		}
	}
	list, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(trailBucket)})
	if err != nil || len(list.Contents) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	name, _ := strings.CutSuffix(path.Base(*list.Contents[0].Key), ".jsonl.gz")
	text = strings.ReplaceAll(text, "FIRST-LAST-SUM", name)
	if err := <-start(t, atMoto(url), "set -e -o pipefail\n"+text+"test $(zgrep -h key-1 january/day=*/*.jsonl.gz | wc -l) = 2\n"); err != nil {
		t.Error(err)
	}
}

// inBackground runs a master that the reader runs in a terminal of its own.
func inBackground(text string) string {
	var s strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "locust ") && !strings.HasSuffix(line, "&") && !strings.Contains(line, "--headless") {
			line += " &"
		}
		s.WriteString(line + "\n")
	}
	return s.String()
}

// freePort finds a port that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// start runs a script in a folder that has the repository's examples. Its programs are killed when
// the test ends; the channel has how it ended before.
func start(t *testing.T, environment []string, text string) <-chan error {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../../../../../examples")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.Symlink(examples, filepath.Join(folder, "examples")); err != nil {
		t.Fatal(err)
	}
	programs := strings.Join([]string{filepath.Dir(path), filepath.Dir(peers.LocustPython(t)), filepath.Dir(peers.AWS(t)), os.Getenv("PATH")}, ":")
	cmd := exec.Command("bash", "-c", text) //nolint:noctx // its whole group is killed below
	cmd.Dir, cmd.SysProcAttr = folder, &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(environment, "PATH="+programs, "HOME="+folder, "AWS_EC2_METADATA_DISABLED=true", "PYTHONDONTWRITEBYTECODE=1", "PIP_QUIET=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		<-done
		if t.Failed() {
			t.Logf("%s\n%s", text, &out)
		}
	})
	return ended
}

// swarm waits until a worker has joined the master of a page, starts users, and waits until they
// have been served.
func swarm(t *testing.T, page string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	wait := func(what string, is func(*peers.LocustStats) bool) {
		t.Helper()
		last := errors.New("the page did not answer")
		for ctx.Err() == nil {
			var stats peers.LocustStats
			if last = ask(ctx, page+"/stats/requests", &stats); last == nil && is(&stats) {
				return
			}
			time.Sleep(200 * time.Millisecond)
		}
		t.Fatalf("%s: %v", what, last)
	}
	wait("no worker has joined", func(s *peers.LocustStats) bool { return len(s.Workers) > 0 })
	response, err := http.PostForm(page+"/swarm", url.Values{"user_count": {"5"}, "spawn_rate": {"5"}}) //nolint:noctx // it answers at once
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	wait("no user was served", func(s *peers.LocustStats) bool {
		for _, e := range s.Errors {
			t.Fatalf("%s %s: %s", e.Method, e.Name, e.Error)
		}
		return len(s.Stats) > 0 && s.Stats[0].Requests > 0
	})
}

// ask reads JSON from a page.
func ask(ctx context.Context, page string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(answer)
}
