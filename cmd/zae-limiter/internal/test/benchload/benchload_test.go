//go:build conformance

// Package benchload compares load tests with those of the Python peer. make benchload runs it.
package benchload_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// table is the name of the table under load.
const table = "load"

var (
	loadTime   = flag.Duration("loadtest.time", 10*time.Second, "how long each load test runs")
	loadRounds = flag.Int("loadtest.rounds", 5, "how many load tests each side runs, in turn")
)

// figures are those of one load test.
type figures struct {
	rate     float64 // requests a second
	p50, p99 float64 // ms
	cpu      float64 // ms of the process that makes the load, for each request
}

// The scenario max-rps with this program, and as users of the Locust integration of the Python
// peer, in turn on the same DynamoDB Local: 10 users that acquire again at once, half of them
// with a parent. The processor time of this program includes its start, its set-up and the
// comparison of its books; that of the peer does not include its start and set-up.
func TestLoadTestsSideBySide(t *testing.T) {
	db := peers.DynamoDBLocal(t)
	if err := dynamo.CreateTable(t.Context(), db.Client, dynamo.TableOptions{Name: table}); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	program := filepath.Join(folder, "zae-limiter")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../..").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	env := append(os.Environ(), "AWS_REGION="+peers.Region, "AWS_ACCESS_KEY_ID="+peers.AccessKey, "AWS_SECRET_ACCESS_KEY="+peers.SecretKey,
		"AWS_ENDPOINT_URL_DYNAMODB="+db.Endpoint, "AWS_EC2_METADATA_DISABLED=true")
	sides := []struct {
		name string
		run  func() figures
		all  []figures
	}{
		{name: "zae-limiter loadtest run", run: func() figures { return runLoadTest(t, program, env) }},
		{name: "Python with Locust", run: func() figures { return runLocust(t, filepath.Join(folder, "figures.json"), env) }},
	}
	for range *loadRounds {
		for i := range sides {
			sides[i].all = append(sides[i].all, sides[i].run())
		}
	}
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "medians\trequests/s\tp50 ms\tp99 ms\tCPU ms a request")
	var medians []figures
	for _, side := range sides {
		m := figures{
			median(side.all, func(f figures) float64 { return f.rate }), median(side.all, func(f figures) float64 { return f.p50 }),
			median(side.all, func(f figures) float64 { return f.p99 }), median(side.all, func(f figures) float64 { return f.cpu }),
		}
		medians = append(medians, m)
		fmt.Fprintf(w, "%s\t%.0f\t%.1f\t%.1f\t%.3f\n", side.name, m.rate, m.p50, m.p99, m.cpu)
	}
	ours, theirs := medians[0], medians[1]
	fmt.Fprintf(w, "ratio\t%.2f\t%.2f\t%.2f\t%.2f\n", ours.rate/theirs.rate, ours.p50/theirs.p50, ours.p99/theirs.p99, ours.cpu/theirs.cpu)
	_ = w.Flush()
	t.Logf("\n%s", &b)
	if ours.rate < theirs.rate || ours.p99 > theirs.p99 || ours.cpu > theirs.cpu {
		t.Error("the load test of the Python peer is better in a figure")
	}
}

func median(all []figures, of func(figures) float64) float64 {
	values := make([]float64, len(all))
	for i, f := range all {
		values[i] = of(f)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// runLoadTest runs the scenario with this program.
func runLoadTest(t *testing.T, program string, env []string) figures {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "loadtest", "run", "max-rps", "-n", table, "--duration", loadTime.String(), "--output", "json", "--yes")
	cmd.Env, cmd.Stderr = env, new(bytes.Buffer)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, cmd.Stderr, out)
	}
	r, err := result.Read(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	var answers, failed int64
	var f figures
	phase := &r.Sides[0].Phases[0]
	for i := range phase.Classes {
		c := &phase.Classes[i]
		answers, failed = answers+c.Answers.Operations, failed+c.Answers.Errors()
		f.rate += float64(c.Answers.Operations) / c.Seconds
		f.p50, f.p99 = max(f.p50, float64(c.Latency.P50)), max(f.p99, float64(c.Latency.P99)) // of the slower class
	}
	if failed > 0 || answers == 0 || r.IsWrong() {
		t.Fatalf("%d of %d requests failed: %+v", failed, answers, r.Findings())
	}
	f.cpu = milliseconds(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()) / float64(answers)
	return f
}

// runLocust runs the scenario with the peer's integration of Locust. Locust is installed
// apart from the peer, so the peer's packages come second.
func runLocust(t *testing.T, path string, env []string) figures {
	t.Helper()
	packages, err := filepath.Glob(filepath.Join(filepath.Dir(peers.Python(t)), "..", "lib", "python3*", "site-packages"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages of the Python peer: %v, %v", packages, err)
	}
	cmd := exec.CommandContext(t.Context(), peers.LocustPython(t), "-W", "ignore", "-c",
		"import sys; sys.path.append(sys.argv.pop(1)); from locust.main import main; main()", packages[0],
		"-f", "testdata/max_rps.py", "--headless", "--users", "10", "--spawn-rate", "10", "--reset-stats", "--only-summary")
	cmd.Env = append(env, "TARGET_STACK_NAME="+table, "TARGET_REGION="+peers.Region, "PYTHONDONTWRITEBYTECODE=1",
		"FIGURES="+path, fmt.Sprintf("LASTS=%f", loadTime.Seconds()))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("Locust: %v\n%s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Requests, Failures     int64
		Seconds, CPU, P50, P99 float64
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	if f.Failures > 0 || f.Requests == 0 {
		t.Fatalf("%d of %d requests failed", f.Failures, f.Requests)
	}
	return figures{float64(f.Requests) / f.Seconds, f.P50, f.P99, 1000 * f.CPU / float64(f.Requests)}
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
