package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/doctest"
)

// TestReference compares docs/cli, a page for each command of the first level, with what the
// commands say of themselves, and checks that no page is left over.
func TestReference(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "..", "..", "docs", "cli")
	known := map[string]bool{}
	for _, cmd := range cli.Root().Commands() {
		if !cmd.IsAvailableCommand() {
			continue
		}
		name := cmd.Name() + ".md"
		known[name] = true
		file, got := filepath.Join(dir, name), reference(cmd)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%v; write it with make reference", err)
			continue
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("docs/cli/%s is not up to date; run make reference (-page +command):\n%s", name, diff)
		}
	}
	for _, b := range doctest.Blocks(t, root, doctest.Reference) {
		if !known[filepath.Base(b.Document)] {
			t.Errorf("%s:%d: no command writes this block", b.Document, b.Line)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !known[f.Name()] {
			t.Errorf("docs/cli/%s is the page of no command: delete it", f.Name())
		}
	}
}

// reference is the page of a command, and of those below it.
func reference(cmd *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# " + strings.TrimPrefix(cmd.CommandPath(), "zae-limiter ") + "\n\n" +
		"<!-- make reference writes this page from the commands. Change their help, not the page. -->\n")
	section(&b, cmd)
	below(&b, cmd)
	return b.String()
}

// below writes a section for each command below cmd.
func below(b *strings.Builder, cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			b.WriteString("\n## " + strings.TrimPrefix(c.CommandPath(), "zae-limiter ") + "\n")
			section(b, c)
			below(b, c)
		}
	}
}

// unrunnable says of which commands the examples cannot run in a session of the documents.
var unrunnable = map[string]string{
	"loadtest swarm run":  "it needs a master of Locust",
	"loadtest swarm tune": "it needs a master of Locust",
	"loadtest ui":         "it needs the Session Manager plugin",
	"loadtest worker":     "it needs a master of Locust",
	"serve":               "it serves until it is interrupted",
}

// section writes what one command is for, how it is called, and its flags.
func section(b *strings.Builder, cmd *cobra.Command) {
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	fmt.Fprintf(b, "\n%s\n", prose(about))
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n| command | |\n|---|---|\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				name := strings.TrimPrefix(c.CommandPath(), "zae-limiter ")
				fmt.Fprintf(b, "| [`%s`](#%s) | %s |\n", name, strings.ReplaceAll(name, " ", "-"), cell(c.Short))
			}
		}
		return
	}
	fmt.Fprintf(b, "\n```text\n%s\n```\n", cmd.UseLine())
	if cmd.HasExample() {
		b.WriteString("\n")
		if why := unrunnable[strings.TrimPrefix(cmd.CommandPath(), "zae-limiter ")]; why != "" {
			fmt.Fprintf(b, "<!-- untested: %s -->\n", why)
		}
		fmt.Fprintf(b, "```sh\n%s\n```\n", unindented(cmd.Example))
	}
	own, global := pflag.NewFlagSet("own", pflag.ContinueOnError), []string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case cli.IsGlobal(f.Name):
			global = append(global, "`--"+f.Name+"`")
		case !f.Hidden && f.Name != "help":
			own.AddFlag(f)
		}
	})
	if own.HasFlags() {
		b.WriteString("\n| flag | |\n|---|---|\n")
		own.VisitAll(func(f *pflag.Flag) {
			name, usage := described(f)
			fmt.Fprintf(b, "| `%s` | %s |\n", strings.ReplaceAll(name, "|", `\|`), cell(usage))
		})
	}
	fmt.Fprintf(b, "\nFlags of [many commands](../command-line.md#flags-of-many-commands): %s.\n", strings.Join(global, ", "))
}

// described is a flag as help has it: its names and value, and its meaning with its default.
func described(f *pflag.Flag) (name, usage string) {
	alone := pflag.NewFlagSet(f.Name, pflag.ContinueOnError)
	alone.AddFlag(f)
	name, usage, _ = strings.Cut(strings.TrimSpace(alone.FlagUsages()), "   ")
	return name, strings.Join(strings.Fields(usage), " ")
}

// markup matches what Markdown would not show as it is.
var markup = regexp.MustCompile(`[<*_|\[\]]`)

// document matches the name of a document.
var document = regexp.MustCompile(`docs/([a-z-]+\.md(?:#[a-z-]+)?)`)

// lists matches the lines of a text that are indented: a list, or a command.
var lists = regexp.MustCompile(`(?m)(?:^  .*\n?)+`)

// prose is a text of a command as Markdown, with links to the documents that it names.
func prose(text string) string {
	var b strings.Builder
	last := 0
	for _, at := range lists.FindAllStringIndex(text, -1) {
		b.WriteString(linked(text[last:at[0]]))
		b.WriteString("\n```text\n" + unindented(strings.TrimRight(text[at[0]:at[1]], "\n")) + "\n```\n\n")
		last = at[1]
	}
	return strings.TrimRight(regexp.MustCompile(`\n{3,}`).ReplaceAllString(b.String()+linked(text[last:]), "\n\n"), "\n")
}

// linked is a text without lists as Markdown.
func linked(text string) string {
	return document.ReplaceAllString(markup.ReplaceAllString(text, `\$0`), "[docs/$1](../$1)")
}

// unindented is a text without the two spaces before each line.
func unindented(text string) string {
	return regexp.MustCompile(`(?m)^  `).ReplaceAllString(text, "")
}

// cell is a text in a cell of a table.
func cell(text string) string { return linked(strings.ReplaceAll(text, "\n", " ")) }
