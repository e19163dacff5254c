// Package doctest reads the fenced blocks of the documents, for the tests that compile, run and
// parse them. Each block has one check, by its language and by the comment in the line before it:
// see [Check] and the table of rules. A block that no rule fits is an error.
package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A Block is a fenced block of a document.
type Block struct {
	// Document is the path of the document from the root of the repository.
	Document string
	// Line is the number of the block's first line of text.
	Line int
	// Language is the word behind the fence.
	Language string
	// Mark and Argument are the parts of the comment before the block; "" if there is none.
	Mark, Argument string
	Check          Check
	Text           string
}

// A Check is what a test does with a block.
type Check string

// Checks, each with the marks that ask for it.
const (
	// Untested blocks are left alone: <!-- untested: REASON -->.
	Untested Check = "untested"
	// Program is a file of a program that is built and run: <!-- file: NAME/main.go -->;
	// every/FILE is beside each program.
	Program Check = "program"
	// Output is what the program NAME prints: <!-- output: NAME -->.
	Output Check = "output"
	// Part is a part of a file of the repository that is tested itself: <!-- in: FILE -->.
	Part Check = "part"
	// Fragment is Go that is compiled in a function: <!-- given: used int64 --> has the names
	// that it uses, as parameters of a function.
	Fragment Check = "fragment"
	// Session is a block of commands that are run, those of a page one after the other.
	Session Check = "session"
	// Counterpart is a block of commands that are run with real counterparts, which make
	// conformance installs: <!-- needs: NAME -->.
	Counterpart Check = "counterpart"
	// Query is SQL of Athena about the archive of audit events.
	Query Check = "query"
	// Data is YAML that its reader accepts; <!-- saved: FILE --> gives it to the sessions of the
	// page as a file.
	Data Check = "data"
	// Schema is JSON that a schema of the repository accepts: <!-- schema: FILE -->.
	Schema Check = "schema"
	// Policy is a policy of IAM.
	Policy Check = "policy"
	// Text is what the library says, an error for instance: <!-- text: NAME -->.
	Text Check = "text"
	// Answer is an answer of HTTP as the middleware writes it.
	Answer Check = "answer"
	// Python is what a client of the Python package runs.
	Python Check = "python"
	// Reference is a text of the commands, in a page that make reference writes.
	Reference Check = "reference"
	// Drawing is made of lines and arrows: <!-- drawing -->. Packages that it names exist.
	Drawing Check = "drawing"
)

// rules say which check a block has: that of the first row that fits. An empty language is any,
// and so is an empty folder.
var rules = []struct {
	language, mark, folder string
	check                  Check
}{
	{"", "untested", "", Untested},
	{"", "file", "", Program},
	{"", "output", "", Output},
	{"", "in", "", Part},
	{"go", "", "", Fragment},
	{"go", "given", "", Fragment},
	{"sh", "", "", Session},
	{"console", "", "", Session},
	{"sh", "needs", "", Counterpart},
	{"sql", "", "", Query},
	{"yaml", "", "", Data},
	{"yaml", "saved", "", Data},
	{"json", "schema", "", Schema},
	{"json", "", "docs/permissions.md", Policy},
	{"http", "", "", Answer},
	{"python", "", "", Python},
	{"text", "", "docs/cli/", Reference},
	{"text", "text", "", Text},
	{"text", "drawing", "", Drawing},
}

// Marks are the marks that ask for a check.
func Marks() []string {
	var all []string
	for _, r := range rules {
		if r.mark != "" && !slices.Contains(all, r.mark) {
			all = append(all, r.mark)
		}
	}
	return all
}

// Checks are the checks that blocks have.
func Checks() []Check {
	var all []Check
	for _, r := range rules {
		if !slices.Contains(all, r.check) {
			all = append(all, r.check)
		}
	}
	return all
}

func (b *Block) check() (Check, bool) {
	for _, r := range rules {
		if (r.language == "" || r.language == b.Language) && r.mark == b.Mark && strings.HasPrefix(b.Document, r.folder) {
			return r.check, true
		}
	}
	return "", false
}

var (
	fence = regexp.MustCompile("^( *)```(.*)$")
	mark  = regexp.MustCompile(`^<!-- ([a-z]+):?(?: (.*))? -->$`)
	item  = regexp.MustCompile(`^ *(?:[-*]|[0-9]+\.) `) // of a list
)

// Blocks returns the blocks with one of the checks. root is the root of the repository. The test
// fails if there is none with a check. Without checks, Blocks returns all blocks, and the test
// fails if one has no check.
func Blocks(t *testing.T, root string, checks ...Check) []Block {
	t.Helper()
	var all []Block
	found := map[Check]bool{}
	for _, document := range documents(t, root) {
		text, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		blocks, _, problems := Parse(document, string(text))
		if len(checks) == 0 {
			for _, p := range problems {
				t.Error(p)
			}
		}
		for _, b := range blocks {
			if len(checks) == 0 || slices.Contains(checks, b.Check) {
				found[b.Check] = true
				all = append(all, b)
			}
		}
	}
	for _, check := range checks {
		if !found[check] {
			t.Errorf("no document has a block for the check %s: delete its rule", check)
		}
	}
	return all
}

// Prose returns the texts of the same documents without their fenced blocks, by path.
func Prose(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, document := range documents(t, root) {
		text, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		_, all[document], _ = Parse(document, string(text))
	}
	return all
}

// documents returns the paths of the documents from the root of the repository: those at the
// root but the changelog, which tells of old versions, those of docs, and of the examples.
func documents(t *testing.T, root string) []string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return filepath.Base(path) == "CHANGELOG.md" })
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range paths {
		if path, err = filepath.Rel(root, path); err != nil {
			t.Fatal(err)
		}
		paths[i] = filepath.ToSlash(path)
	}
	return paths
}

// Parse returns the blocks of a document, its text without them, and what is wrong with them:
// blocks without a check, without an end, and blocks that are indented instead of fenced, for
// which no language can be given.
func Parse(document, text string) (blocks []Block, prose string, problems []error) {
	p := parser{document: document}
	for line := range strings.Lines(text) {
		p.line(strings.TrimSuffix(line, "\n"))
	}
	if p.block != nil {
		p.wrong(p.block.Line, "the block has no end")
	}
	return p.blocks, p.prose.String(), p.problems
}
