package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// TestTheReadmeNamesEveryCommand checks the table of commands: the row of a command has its
// verbs. Some commands are only for the functions of a stack.
func TestTheReadmeNamesEveryCommand(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(readme), "| command | verbs |\n")
	table, _, ended := strings.Cut(table, "\n\n")
	if !found || !ended {
		t.Fatal("README.md has no table of commands")
	}
	for _, path := range cli.CommandPaths() {
		if len(path) > 0 && !slices.Contains(withoutScripts, strings.Join(path, " ")) && !hasRow(table, path) {
			t.Errorf("the table of commands in README.md does not have %s", strings.Join(path, " "))
		}
	}
}

// hasRow reports whether a row begins with a command, and has its verb if there is one.
func hasRow(table string, path []string) bool {
	for row := range strings.Lines(table) {
		name, verbs, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		named := strings.Contains(name, "`"+path[0]+"`") || strings.Contains(name, "`"+path[0]+" ")
		if named && (len(path) == 1 || strings.Contains(verbs, "`"+path[1]+"`")) {
			return true
		}
	}
	return false
}
