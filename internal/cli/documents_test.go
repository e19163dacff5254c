package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/cli"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/internal/doctest"
)

// root is the root of the repository.
var root = filepath.Join("..", "..")

// untestedSessions is the number of sessions that cannot be run. Each says why, in its mark.
const untestedSessions = 0

// TestTheSessionsOfTheDocuments runs the blocks of README.md and of the pages that show commands
// with their output ("console"), and compares the output. Those of a page are one session, with
// one clock, and one engine in memory: for it stands AWS, and the directory of --local, whose
// disk would take time while the clock stands still. The sessions may have
//
//	$ export NAME=VALUE…
//	$ sleep SECONDS        moves the clock
//	$ zae-limiter …        and "; echo $?" behind it
//
// An ellipsis in the output stands for any text. Waits are compared in whole seconds. A command
// without output in the document must succeed; what it prints is left out. So is "go install".
func TestTheSessionsOfTheDocuments(t *testing.T) {
	t.Parallel()
	sessions, count, untested := map[string]*session{}, 0, 0
	for _, b := range doctest.Blocks(t, root) {
		if b.Language != "console" {
			continue
		}
		if b.Mark == "untested" {
			untested++
			continue
		}
		count++
		if sessions[b.Document] == nil {
			sessions[b.Document] = newSession(t)
		}
		got := sessions[b.Document].run(t, b)
		// The text between ellipses must be there as it is.
		pattern := strings.ReplaceAll(regexp.QuoteMeta(inSeconds(b.Text)), "…", ".*")
		if !regexp.MustCompile(`(?s)^` + pattern + `$`).MatchString(inSeconds(got)) {
			t.Errorf("%s:%d: the session shows something else (-document +program):\n%s", b.Document, b.Line, cmp.Diff(b.Text, got))
		}
	}
	if count < 5 {
		t.Errorf("found %d sessions: does the pattern still fit the documents?", count)
	}
	if untested != untestedSessions {
		t.Errorf("%d sessions are marked as untested, and untestedSessions says %d", untested, untestedSessions)
	}
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

// A session is what the commands of a document share.
type session struct {
	env    map[string]string
	engine *dynamolite.DB
	folder string // of the paths that begin with ./
	mu     sync.Mutex
	clock  time.Time
}

func newSession(t *testing.T) *session {
	t.Helper()
	s := &session{env: map[string]string{}, folder: t.TempDir(), clock: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)}
	s.engine = dynamolite.New(dynamolite.Options{Now: s.now})
	return s
}

func (s *session) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

// run runs the commands of a block, and returns the block as it should be.
func (s *session) run(t *testing.T, b doctest.Block) string {
	t.Helper()
	var shown strings.Builder
	for _, part := range strings.Split("\n"+strings.TrimSuffix(b.Text, "\n"), "\n$ ")[1:] {
		command, output, _ := strings.Cut(part, "\n")
		shown.WriteString("$ " + command + "\n")
		command, _, _ = strings.Cut(command, "  # ")
		command, echo := strings.CutSuffix(strings.TrimSpace(command), "; echo $?")
		words := split(command)
		switch words[0] {
		case "export":
			for _, pair := range words[1:] {
				name, value, _ := strings.Cut(pair, "=")
				s.env[name] = value
			}
		case "sleep":
			seconds, err := strconv.ParseFloat(words[1], 64)
			if err != nil {
				t.Errorf("%s:%d: %s: %v", b.Document, b.Line, command, err)
			}
			s.mu.Lock()
			s.clock = s.clock.Add(time.Duration(seconds * float64(time.Second)))
			s.mu.Unlock()
		case "zae-limiter":
			code, text := s.execute(t, words[1:], strings.Count(output, "\n")+1)
			if output == "" && code != 0 {
				t.Errorf("%s:%d: %s: exit code %d: %s", b.Document, b.Line, command, code, text)
			}
			if output != "" {
				shown.WriteString(text)
			}
			if echo {
				fmt.Fprintln(&shown, code)
			}
		case "go":
		default:
			t.Errorf("%s:%d: a session has no command %s", b.Document, b.Line, words[0])
		}
	}
	return shown.String()
}

// address matches the address of a server that was free to choose its port.
var address = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)

// execute runs the program, and returns its exit code and output. The server, local, is
// interrupted when it has printed a number of lines.
func (s *session) execute(t *testing.T, args []string, lines int) (code int, text string) {
	t.Helper()
	if i := slices.Index(args, "--local"); i >= 0 {
		args = slices.Delete(args, i, i+2)
	}
	for i, arg := range args {
		if path, ok := strings.CutPrefix(arg, "./"); ok {
			args[i] = filepath.Join(s.folder, path)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	isServer := args[0] == "local"
	if isServer {
		args = append(args, "--addr", "127.0.0.1:0")
	}
	var out bytes.Buffer
	code = cli.Run(ctx, cli.Options{
		Args: args, Stdin: strings.NewReader(""), Stderr: &out,
		Stdout: writerFunc(func(p []byte) (int, error) {
			n, err := out.Write(p)
			if isServer && bytes.Count(out.Bytes(), []byte("\n")) >= lines {
				cancel()
			}
			return n, err
		}),
		Getenv:  func(name string) string { return s.env[name] },
		Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return s.engine, nil },
		Now:     s.now,
	})
	text = strings.ReplaceAll(out.String(), s.folder+string(filepath.Separator), "./")
	if isServer {
		text = address.ReplaceAllString(text, "127.0.0.1:8000")
	}
	return code, text
}

// split splits a command line into words, as a shell does with quotes.
func split(line string) (words []string) {
	for _, word := range regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`).FindAllString(line, -1) {
		words = append(words, strings.NewReplacer(`'`, "", `"`, "").Replace(word))
	}
	return words
}

var (
	// indented matches a command in an indented block.
	indented = regexp.MustCompile(`(?m)^    (?:\$ )?zae-limiter .*(?:\\\n.*)*`)
	// span matches a command in a line of prose.
	span = regexp.MustCompile("`zae-limiter [^`\n]+`")
)

// TestTheCommandsOfTheDocumentsExist checks the commands that README.md and the pages name, with
// their flags, and the arguments of those in blocks.
func TestTheCommandsOfTheDocumentsExist(t *testing.T) {
	t.Parallel()
	count := 0
	check := func(where, line string, whole bool) {
		line = strings.ReplaceAll(line, "\\\n", " ")
		for _, end := range []string{" # ", " | ", " > ", " >> ", "; ", " && ", " &"} {
			line, _, _ = strings.Cut(line, end)
		}
		words := slices.DeleteFunc(split(strings.TrimPrefix(strings.TrimSpace(line), "$ ")), func(w string) bool { return w == "…" })
		if len(words) == 0 || words[0] != "zae-limiter" {
			return
		}
		count++
		if err := cli.Parse(words[1:], whole); err != nil {
			t.Errorf("%s: %s: %v", where, line, err)
		}
	}
	for _, b := range doctest.Blocks(t, root) {
		if slices.Contains([]string{"sh", "console", ""}, b.Language) && b.Mark != "untested" {
			for line := range strings.Lines(strings.ReplaceAll(b.Text, "\\\n", " ")) {
				check(fmt.Sprintf("%s:%d", b.Document, b.Line), line, true)
			}
		}
	}
	for document, text := range doctest.Prose(t, root) {
		for _, command := range indented.FindAllString(text, -1) {
			check(document, command, true)
		}
		for _, command := range span.FindAllString(text, -1) {
			check(document, strings.Trim(command, "`"), false)
		}
	}
	if count < 100 {
		t.Errorf("found %d commands: do the patterns still fit the documents?", count)
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
