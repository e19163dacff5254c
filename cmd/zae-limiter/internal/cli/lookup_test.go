package cli_test

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// prompt matches a line that a person types.
var prompt = regexp.MustCompile(`(?m)^\$ .*$`)

// commandsOf yields the texts of the commands of a shell script.
func commandsOf(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		script, err := syntax.NewParser().Parse(strings.NewReader(text), "")
		if err != nil {
			yield(text) // which fails
			return
		}
		for _, stmt := range script.Stmts {
			if !yield(text[stmt.Pos().Offset():stmt.End().Offset()]) {
				return
			}
		}
	}
}

// callsOf yields the words of each program that a shell script calls.
func callsOf(text string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		script, err := syntax.NewParser().Parse(strings.NewReader(text), "")
		if err != nil {
			return // it is no command: a sentence, or a synopsis
		}
		syntax.Walk(script, func(n syntax.Node) bool {
			if call, ok := n.(*syntax.CallExpr); ok {
				words := make([]string, 0, len(call.Args))
				for _, w := range call.Args {
					words = append(words, wordOf(w))
				}
				return yield(words)
			}
			return true
		})
	}
}

// wordOf is a word as its program gets it, with an x for what only a shell knows.
func wordOf(w *syntax.Word) string {
	var s strings.Builder
	var add func([]syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, part := range parts {
			switch part := part.(type) {
			case *syntax.Lit:
				s.WriteString(part.Value)
			case *syntax.SglQuoted:
				s.WriteString(part.Value)
			case *syntax.DblQuoted:
				add(part.Parts)
			default:
				s.WriteString("x")
			}
		}
	}
	add(w.Parts)
	return s.String()
}

var target = regexp.MustCompile(`(?m)^([a-z-]+):`)

// makeTargets are the targets of the Makefile.
func makeTargets(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range target.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	return names
}

// nothing are the patterns that name no test: those with which a person asks go test for none, and
// the placeholder of CONTRIBUTING.md.
var nothing = []string{"xxx", "^$", "^TestName$"}

// named is what a pattern of go test is for: tests or benchmarks.
type named struct{ kind, pattern string }

// kinds are the first words of the functions that a flag of go test is for.
var kinds = map[string]string{"-run": "Test", "-bench": "Benchmark"}

// lookUpTests finds what the arguments of go test name: packages, their tests and benchmarks, and
// the flags that tests declare.
func lookUpTests(args []string) error {
	dir, packages, patterns, flags := root, []string{}, []named{}, []string{}
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		if !strings.HasPrefix(name, "-") {
			packages = append(packages, name)
			continue
		}
		isSwitch := slices.Contains([]string{"-v", "-race", "-short", "-benchmem", "-update"}, name)
		if !given && !isSwitch && i+1 < len(args) {
			i++
			value = args[i]
		}
		switch {
		case name == "-C":
			dir = filepath.Join(root, value)
		case (name == "-run" || name == "-bench") && !slices.Contains(nothing, value):
			patterns = append(patterns, named{kinds[name], value})
		case strings.Contains(name, ".") || name == "-update":
			flags = append(flags, name)
		}
	}
	var sources strings.Builder
	for _, name := range append(packages, map[bool][]string{true: {"."}}[len(packages) == 0]...) {
		files, err := filepath.Glob(filepath.Join(dir, strings.TrimSuffix(name, "..."), "*_test.go"))
		if err != nil || len(files) == 0 && !strings.HasSuffix(name, "...") {
			return fmt.Errorf("there is no test in %s", filepath.Join(dir, name))
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			sources.Write(text)
		}
	}
	for _, p := range patterns {
		matcher, err := regexp.Compile(p.pattern)
		if err != nil {
			return err
		}
		fits := func(m []string) bool { return strings.HasPrefix(m[1], p.kind) && matcher.MatchString(m[1]) }
		if !slices.ContainsFunc(declared.FindAllStringSubmatch(sources.String(), -1), fits) {
			return fmt.Errorf("no %s fits %s", strings.ToLower(p.kind), p.pattern)
		}
	}
	for _, flag := range flags {
		if !strings.Contains(sources.String(), `("`+flag[1:]+`"`) {
			return fmt.Errorf("no test declares the flag %s", flag)
		}
	}
	return nil
}

var declared = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)\(`)
