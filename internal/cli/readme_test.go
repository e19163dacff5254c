package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/cli"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
)

// TestReadme runs the session in README.md and compares the output. In the README an
// ellipsis replaces the rest of a JSON list.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, session, _ := strings.Cut(string(readme), "```console\n")
	session, _, found := strings.Cut(session, "```")
	if !found {
		t.Fatal("README.md shows no session")
	}
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC) }
	engine := dynamolite.New(dynamolite.Options{Now: now})
	env := map[string]string{}
	var got strings.Builder
	for line := range strings.Lines(session) {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		got.WriteString(line)
		command, echo := strings.CutSuffix(strings.TrimSpace(command), "; echo $?")
		words := strings.Fields(command)
		if words[0] == "export" {
			for _, pair := range words[1:] {
				name, value, _ := strings.Cut(pair, "=")
				env[name] = value
			}
			continue
		}
		code := cli.Run(t.Context(), cli.Options{
			Args: words[1:], Stdin: strings.NewReader(""), Stdout: &got, Stderr: &got,
			Getenv:  func(name string) string { return env[name] },
			Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return engine, nil },
			Now:     now,
		})
		if echo {
			fmt.Fprintln(&got, code)
		}
	}
	const list = `"statuses":[`
	shown := got.String()
	if from := strings.Index(shown, list); from >= 0 {
		to := strings.LastIndex(shown, "]")
		shown = shown[:from+len(list)] + "…" + shown[to:]
	}
	if diff := cmp.Diff(session, shown); diff != "" {
		t.Errorf("the session of README.md (-shown +real):\n%s", diff)
	}
}
