package cli_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/doctest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/s3test"
)

// root is the root of the repository.
var root = filepath.Join("..", "..", "..", "..")

// TestTheSessionsOfTheDocuments runs the commands of the documents: those of a page are one
// session. Before them runs the file of the page in testdata/documents, if there is one: it makes
// what the page takes for granted, a table for example; so do the files of the page's folders. A
// block of sh must succeed. A block of a console shows its commands and their output, which is
// compared; an ellipsis stands for any text. A command without output there must succeed.
//
// The sessions run one after the other, because the commands read and write files of the current
// folder.
func TestTheSessionsOfTheDocuments(t *testing.T) { //nolint:paralleltest // see above
	runSessions(t, func(page []doctest.Block) bool { return !haveLoads(page) })
}

// TestLongestSessionsOfLoads does so for the pages that carry out loads, in hours of virtual time.
func TestLongestSessionsOfLoads(t *testing.T) { //nolint:paralleltest // see above
	runSessions(t, haveLoads)
}

// loadCommands are the commands that carry out loads.
var loadCommands = regexp.MustCompile(`zae-limiter (estimate|loadtest)\b`)

func haveLoads(page []doctest.Block) bool {
	return slices.ContainsFunc(page, func(b doctest.Block) bool { return loadCommands.MatchString(b.Text) })
}

// runSessions runs the sessions of the pages that are wanted.
func runSessions(t *testing.T, wanted func(page []doctest.Block) bool) {
	t.Helper()
	pages, order := map[string][]doctest.Block{}, []string{}
	for _, b := range doctest.Blocks(t, root, doctest.Session, doctest.Data) {
		if pages[b.Document] == nil {
			order = append(order, b.Document)
		}
		pages[b.Document] = append(pages[b.Document], b)
	}
	order = slices.DeleteFunc(order, func(page string) bool { return !wanted(pages[page]) })
	if len(order) == 0 {
		t.Fatal("no page is wanted")
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range order {
		t.Run(page, func(t *testing.T) {
			scripts := setups(t, page)
			folder := t.TempDir()
			t.Chdir(folder)
			buckets := s3test.New(t, "trail")
			synctest.Test(t, func(t *testing.T) {
				s := newSession(t, abs, folder, buckets)
				for _, script := range scripts {
					if shown, code := s.run(script.path, "set -e\n"+script.text+"\nset +e\n"); code != 0 {
						t.Fatalf("%s: exit code %d:\n%s", script.path, code, shown)
					}
				}
				for _, b := range pages[page] {
					s.block(b)
				}
			})
		})
	}
}

// A setup is a file with commands that run before those of a page.
type setup struct{ path, text string }

// setups reads the files for a page: those of its folders, from the root of the repository, and
// its own. A page of docs/cli without a file has that of the page of the same name in docs.
func setups(t *testing.T, page string) (all []setup) {
	t.Helper()
	parts := strings.Split(strings.TrimSuffix(page, ".md"), "/")
	for i := range parts {
		path := filepath.Join("testdata", "documents", filepath.Join(parts[:i+1]...)+".sh")
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && i == len(parts)-1 {
			path = strings.Replace(path, filepath.Join("docs", "cli"), "docs", 1)
			text, err = os.ReadFile(path)
		}
		if err == nil {
			all = append(all, setup{path, string(text)})
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return all
}

// block runs the commands of a block, or saves its text as a file.
func (s *session) block(b doctest.Block) {
	s.t.Helper()
	where := fmt.Sprintf("%s:%d", b.Document, b.Line)
	switch {
	case b.Check == doctest.Data:
		if b.Argument != "" {
			if err := os.WriteFile(b.Argument, []byte(b.Text), 0o600); err != nil {
				s.t.Fatal(err)
			}
		}
	case b.Language == "console":
		shown := s.console(where, b.Text)
		// The text between ellipses must be there as it is.
		pattern := strings.ReplaceAll(regexp.QuoteMeta(inSeconds(b.Text)), "…", ".*")
		if !regexp.MustCompile(`(?s)^` + pattern + `$`).MatchString(inSeconds(shown)) {
			s.t.Errorf("%s: the session shows something else (-document +program):\n%s", where, cmp.Diff(b.Text, shown))
		}
	default:
		for command := range commandsOf(b.Text) {
			if shown, code := s.run(where, command); code != 0 && !answered(command, shown, code) {
				s.t.Errorf("%s: %s: exit code %d:\n%s", where, command, code, shown)
			}
		}
	}
}

// answered reports whether an exit code is the answer of a command, not its failure: that there are
// changes, or that one run was worse than another. Two runs of a load in a session differ by
// chance, because their operations depend on the order in which goroutines run.
func answered(command, shown string, code int) bool {
	return code == 2 && strings.Contains(command, "--detailed-exitcode") ||
		code == 1 && strings.Contains(command, "loadtest compare") && strings.Contains(shown, "\nRegression: ")
}

// console runs the commands of a session, and returns them with their output.
func (s *session) console(where, text string) string {
	s.t.Helper()
	var shown strings.Builder
	for _, part := range strings.Split("\n"+strings.TrimSuffix(text, "\n"), "\n$ ")[1:] {
		command, output, _ := strings.Cut(part, "\n")
		shown.WriteString("$ " + command + "\n")
		s.lines = strings.Count(output, "\n") + 1
		printed, code := s.run(where, command)
		if output == "" && code != 0 {
			s.t.Errorf("%s: %s: exit code %d: %s", where, command, code, printed)
		}
		if output != "" {
			shown.WriteString(printed)
		}
	}
	s.lines = 1
	return shown.String()
}

// fraction matches a time of seconds and milliseconds.
var fraction = regexp.MustCompile(`[0-9]+\.[0-9]+s\b`)

// inSeconds is a text with its times rounded to seconds. What a person sees is late by some
// milliseconds, and the clock of a session stands still.
func inSeconds(text string) string {
	return fraction.ReplaceAllStringFunc(text, func(s string) string {
		d, err := time.ParseDuration(s)
		if err != nil {
			return s
		}
		return d.Round(time.Second).String()
	})
}

// span matches a command in a line of prose.
var span = regexp.MustCompile("`(?:zae-limiter|make|go test) [^`\n]+`")

// TestTheCommandsOfTheDocumentsExist looks up the commands that the documents name, in blocks and
// in prose: those of the program, with their flags; the targets of make; the packages and tests of
// go test.
func TestTheCommandsOfTheDocumentsExist(t *testing.T) {
	t.Parallel()
	targets := makeTargets(t)
	look := func(where, text string, whole bool) {
		for words := range callsOf(text) {
			var err error
			switch words = slices.DeleteFunc(words, func(w string) bool { return w == "…" }); {
			case len(words) == 0:
			case words[0] == "zae-limiter":
				err = cli.Parse(words[1:], whole)
			case words[0] == "make":
				for _, word := range words[1:] {
					if !strings.Contains(word, "=") && !slices.Contains(targets, word) {
						err = fmt.Errorf("the Makefile has no target %s", word)
					}
				}
			case len(words) > 1 && words[0] == "go" && words[1] == "test":
				err = lookUpTests(words[2:])
			}
			if err != nil {
				t.Errorf("%s: %s: %v", where, strings.Join(words, " "), err)
			}
		}
	}
	for _, b := range doctest.Blocks(t, root) {
		if text := b.Text; slices.Contains([]string{"sh", "console"}, b.Language) {
			if b.Language == "console" {
				text = strings.Join(prompt.FindAllString(text, -1), "\n")
				text = strings.ReplaceAll("\n"+text, "\n$ ", "\n")
			}
			look(fmt.Sprintf("%s:%d", b.Document, b.Line), text, true)
		}
	}
	for document, text := range doctest.Prose(t, root) {
		for _, command := range span.FindAllString(text, -1) {
			look(document, strings.Trim(command, "`"), false)
		}
	}
}

// TestThePageNamesEveryCommand checks the table of commands in docs/command-line.md: the row of a
// command has its verbs. Some commands are only for the functions of a stack.
func TestThePageNamesEveryCommand(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "command-line.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "| command | verbs |\n")
	table, _, ended := strings.Cut(table, "\n\n")
	if !found || !ended {
		t.Fatal("docs/command-line.md has no table of commands")
	}
	for row := range strings.Lines(table) {
		name, _, _ := strings.Cut(row, " | ")
		if strings.Count(table, name+" | ") > 1 {
			t.Errorf("the table of commands in docs/command-line.md has two rows of %s", strings.TrimPrefix(name, "| "))
		}
	}
	for _, path := range cli.CommandPaths() {
		if len(path) > 0 && !slices.Contains(withoutScripts, strings.Join(path, " ")) && !hasRow(table, path) {
			t.Errorf("the table of commands in docs/command-line.md does not have %s", strings.Join(path, " "))
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
