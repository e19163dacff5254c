package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	cftypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// statesFile has what each command says about a stack in each state of CloudFormation.
const statesFile = "testdata/states.golden"

// verbs are the commands on a stack.
var verbs = [][]string{
	{"deploy", "-n", "limits", "--lambda-memory", "512", "--yes"},
	{"upgrade", "-n", "limits", "--yes"},
	{"status", "-n", "limits"},
	{"check", "-n", "limits"},
	{"list"},
	{"delete", "-n", "limits", "--yes"},
	{"rollback", "-n", "limits", "--yes"},
}

// newStackWorld returns a world with the stack limits.
func newStackWorld(t *testing.T) *world {
	t.Helper()
	w := &world{clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), outage: "none", executable: executable, account: newAccount(), known: map[string]bool{}}
	w.engine = dynamolite.New(dynamolite.Options{Now: w.now})
	t.Cleanup(func() { _ = w.engine.Close() })
	w.meter, w.vault = dynamo.NewMeter(w.engine), newVault(w.engine, w.now)
	w.cloud = cfntest.New(cfntest.Options{Now: w.now, Tables: w.engine})
	if code, _, stderr := w.run(t.Context(), "deploy", "-n", "limits", "--yes"); code != 0 {
		t.Fatalf("deploy: exit code %d: %s", code, stderr)
	}
	return w
}

// run runs the program without a script.
func (w *world) run(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Run(ctx, cli.Options{
		Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }, Version: recorded,
		Connect: w.connect, Now: w.now, ConnectStack: w.connectStack, ConnectHealth: w.connectHealth, Executable: w.executable,
	})
	return code, out.String(), errs.String()
}

// said is the error of a command, else what status and list say about the stack, else the
// last line.
func said(verb, stdout, stderr string) string {
	if _, message, failed := strings.Cut(stderr, "Error: "); failed {
		return "Error: " + strings.ReplaceAll(strings.TrimSpace(message), "\n", " | ")
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	switch verb {
	case "status":
		findings, _, _ := strings.Cut(stdout, "\n\n")
		return strings.Join(strings.Fields(findings), " ")
	case "list":
		return strings.Join(strings.Fields(strings.Join(lines[min(1, len(lines)-1):], " | ")), " ")
	}
	return lines[len(lines)-1]
}

// nextSteps are in every message that tells what to do.
var nextSteps = []string{"zae-limiter ", "deploy again", "--watch", "CloudFormation console", "nothing to roll back"}

// Every command on a stack ends in every state that CloudFormation has, and whatever it
// refuses has a next step. The two states that rollback changes are in rollback.txtar.
func TestEveryCommandInEveryState(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, status := range cftypes.StackStatus("").Values() {
		t.Run(string(status), func(t *testing.T) { // which closes its worlds
			fmt.Fprintf(&got, "%s\n", status)
			for _, args := range verbs {
				verb := args[0]
				if verb == "rollback" && (status == cftypes.StackStatusUpdateInProgress || status == cftypes.StackStatusUpdateRollbackFailed) {
					continue
				}
				w := newStackWorld(t)
				w.cloud.SetStatus("limits", status)
				code, stdout, stderr := w.run(t.Context(), args...)
				line := said(verb, stdout, stderr)
				fmt.Fprintf(&got, "\t%s: %d: %s\n", verb, code, line)
				if code != 0 && !slices.ContainsFunc(nextSteps, func(step string) bool { return strings.Contains(line, step) }) {
					t.Errorf("%s in %s has no next step: %s", verb, status, line)
				}
				if strings.Contains(line, "an operation is running") != (code == 1 && strings.HasSuffix(string(status), "_IN_PROGRESS") && status != cftypes.StackStatusReviewInProgress) {
					t.Errorf("%s in %s does not tell whether an operation runs: %s", verb, status, line)
				}
			}
		})
	}
	if *update {
		if err := os.WriteFile(statesFile, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(statesFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("what commands say (-recorded +got):\n%s", diff)
	}
}
