//go:build conformance

package peers_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// endTimeout bounds the wait for the end of processes that were told to end.
const endTimeout = 30 * time.Second

func TestLocalStackIsFreshAndDiesWithTheTestAndItsDynamoDB(t *testing.T) {
	t.Parallel()
	var below []int
	started := t.Run("suite", func(t *testing.T) { //nolint:paralleltest // the parent checks what is left behind
		stack := peers.StartLocalStack(t)
		tables, err := dynamodb.NewFromConfig(stack.Config()).ListTables(t.Context(), &dynamodb.ListTablesInput{})
		if err != nil || len(tables.TableNames) != 0 {
			t.Fatalf("tables of a fresh LocalStack: %v, %v", tables, err)
		}
		below = descendants(t.Context(), stack.PID())
		if len(below) == 0 {
			t.Fatal("LocalStack has started no DynamoDB Local")
		}
	})
	if !started {
		return
	}
	for _, pid := range below {
		awaitEnd(t, pid)
	}
}

func TestTheRuntimeEmulatorRunsAFunctionUntilTheTestEnds(t *testing.T) {
	t.Parallel()
	var function int
	started := t.Run("suite", func(t *testing.T) { //nolint:paralleltest // the parent checks what is left behind
		emulator := peers.RuntimeEmulator(t, echo(t), []string{"GREETING=hello"})
		for range 2 {
			answer, err := emulator.Invoke(t.Context(), []byte(`{"name":"you"}`))
			if want := `hello {"name":"you"}`; err != nil || string(answer) != want {
				t.Fatalf("answered %s, %v, want %s; %s", answer, err, want, emulator.Log(t))
			}
		}
		var err error
		if function, err = emulator.Function(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if started {
		awaitEnd(t, function)
	}
}

// echo writes a function for which a shell script is enough: it answers with a greeting
// and the event.
func echo(t *testing.T) string {
	t.Helper()
	const script = `#!/bin/sh
cd "$(dirname "$0")"
api=http://$AWS_LAMBDA_RUNTIME_API/2018-06-01/runtime/invocation
while event=$(curl -sSf -D headers "$api/next"); do
	id=$(sed -n 's/^Lambda-Runtime-Aws-Request-Id: \(.*\)\r$/\1/Ip' headers)
	curl -sSf -o answer -d "$GREETING $event" "$api/$id/response" || exit 1
done
`
	path := filepath.Join(t.TempDir(), "bootstrap")
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	return path
}

// descendants returns the processes below a process.
func descendants(ctx context.Context, pid int) (all []int) {
	out, err := exec.CommandContext(ctx, "pgrep", "-P", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil // no process has this parent
	}
	for field := range strings.FieldsSeq(string(out)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			continue
		}
		all = append(append(all, child), descendants(ctx, child)...)
	}
	return all
}

// awaitEnd waits until a process no longer runs.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), endTimeout)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		select {
		case <-ctx.Done():
			t.Fatalf("process %d still runs", pid)
		case <-poll.C:
		}
	}
}
