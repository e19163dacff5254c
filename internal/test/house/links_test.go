package house_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var (
	// codeBlock matches a fenced block, whose text is not Markdown.
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	// codeSpan matches code in a line, whose text is not Markdown either.
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	// link matches the target of a link or an image, also where a name of it is defined.
	link = regexp.MustCompile(`(?m)(?:\]\(|^\[[^\]]+\]: )([^)\s]+)\)?`)
	// named and definition match the name of a target, as a link has it and where it is defined.
	named      = regexp.MustCompile(`\]\[([^\]]+)\]`)
	definition = regexp.MustCompile(`(?m)^\[([^\]]+)\]: `)
	// reference matches a name of a document and an anchor, as messages, comments and alerts
	// have them.
	reference = regexp.MustCompile(`docs/[a-z0-9/-]+\.md(#[a-z0-9-]+)?`)
	// decision matches the number of an ADR.
	decision = regexp.MustCompile(`\bADR ([0-9]{3})\b`)
)

// documents returns the paths of the repository's files that end in ext.
func documents(t *testing.T, ext string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := len(path) > 1 && strings.HasPrefix(entry.Name(), ".")
		if entry.IsDir() && (hidden || slices.Contains([]string{"bin", "node_modules"}, entry.Name())) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ext) {
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// anchors returns the anchors that GitHub gives to the headings of a document.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(codeBlock.ReplaceAllString(text, "")) {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		name := anchor(strings.TrimSpace(heading))
		for n := 1; found[name]; n++ {
			name = anchor(strings.TrimSpace(heading)) + "-" + strconv.Itoa(n)
		}
		found[name] = true
	}
	return found
}

// anchor returns the anchor of one heading: lower case, hyphens for spaces, and no other
// punctuation.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, heading)
}

// deadEnd says what is wrong with a link from a file in a folder, or returns "".
func deadEnd(folder, target string) string {
	name, fragment, _ := strings.Cut(target, "#")
	if strings.Contains(name, ":") {
		return "" // another site
	}
	path := filepath.Join(folder, filepath.FromSlash(name))
	text, err := os.ReadFile(path)
	switch info, statErr := os.Stat(path); {
	case statErr != nil:
		return "there is no file " + path
	case fragment == "" || info.IsDir():
		return ""
	case err != nil:
		return err.Error()
	case !anchors(string(text))[fragment]:
		return path + " has no heading #" + fragment
	}
	return ""
}

// names returns the names of targets that a pattern finds, each once and in order.
func names(pattern *regexp.Regexp, text string) (found []string) {
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	count := 0
	for _, document := range documents(t, ".md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		prose := codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(string(text), ""), "")
		for _, match := range link.FindAllStringSubmatch(prose, -1) {
			count++
			folder, target := filepath.Dir(document), match[1]
			if strings.HasPrefix(target, "#") {
				target = filepath.Base(document) + target
			}
			if problem := deadEnd(folder, target); problem != "" {
				t.Errorf("%s links to %s: %s", document, match[1], problem)
			}
		}
		defined := names(definition, prose)
		if used := names(named, prose); !slices.Equal(used, defined) {
			t.Errorf("%s has links to the names %q, and defines %q", document, used, defined)
		}
	}
	if count == 0 {
		t.Error("no document has a link: the pattern is wrong")
	}
}

func TestReferencesToDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	count, decisions := 0, 0
	for _, file := range slices.Concat(documents(t, ".go"), documents(t, ".yaml"), documents(t, ".md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range reference.FindAllString(string(text), -1) {
			count++
			if problem := deadEnd(".", target); problem != "" {
				t.Errorf("%s refers to %s: %s", file, target, problem)
			}
		}
		for _, match := range decision.FindAllStringSubmatch(string(text), -1) {
			decisions++
			if found, err := filepath.Glob("docs/adr/" + match[1] + "-*.md"); err != nil || len(found) != 1 {
				t.Errorf("%s refers to ADR %s, and docs/adr has %d of that number, %v", file, match[1], len(found), err)
			}
		}
	}
	if count == 0 || decisions == 0 {
		t.Errorf("found %d references and %d ADRs: the patterns are wrong", count, decisions)
	}
}

// superseded matches the status of a decision that another one replaced.
var superseded = regexp.MustCompile(`(?m)^Status: superseded`)

// A reader of a mechanism's code finds why it is as it is: the code cites each decision. go.work
// does so for the modules.
func TestProductionCodeCitesEachDecision(t *testing.T) {
	t.Parallel()
	cited := map[string]bool{}
	for _, file := range append(documents(t, ".go"), "go.work") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, number := range names(decision, string(text)) {
			cited[number] = true
		}
	}
	pages, err := filepath.Glob("docs/adr/[0-9]*.md")
	if err != nil || len(pages) < 30 {
		t.Fatalf("found %d decisions, %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		number, _, _ := strings.Cut(filepath.Base(page), "-")
		if !cited[number] && !superseded.Match(text) {
			t.Errorf("no code cites ADR %s: name it in the comment of its mechanism", number)
		}
	}
}
