// Package doctest reads the fenced blocks of the documents, for the tests that compile, run and
// parse them.
//
// A comment in the line before a block says what the tests do with it:
//
//	<!-- file: NAME/main.go -->      a file of the program NAME; every/FILE is beside each program
//	<!-- output: NAME -->            what the program NAME prints
//	<!-- given: used int64 -->       names that a fragment of Go uses, as parameters of a function
//	<!-- in: FILE -->                a part of this file of the repository, which is tested itself
//	<!-- untested: REASON -->        the tests leave the block alone
package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A Block is a fenced block of a document.
type Block struct {
	// Document is the path of the document from the root of the repository.
	Document string
	// Line is the number of the block's first line of text.
	Line int
	// Language is the word behind the fence; "" if there is none.
	Language string
	// Mark and Argument are the parts of the comment before the block; "" if there is none.
	Mark, Argument string
	Text           string
}

var (
	fence = regexp.MustCompile("^( *)```([a-z]*)")
	mark  = regexp.MustCompile(`^<!-- (file|output|given|in|untested): (.*) -->$`)
)

// Blocks returns the blocks of README.md and of all documents below docs. root is the root of the
// repository.
func Blocks(t *testing.T, root string) []Block {
	t.Helper()
	var all []Block
	for _, document := range documents(t, root) {
		blocks, _ := parse(t, root, document)
		all = append(all, blocks...)
	}
	return all
}

// Prose returns the texts of the same documents without their fenced blocks, by path.
func Prose(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, document := range documents(t, root) {
		_, all[document] = parse(t, root, document)
	}
	return all
}

// documents returns the paths of the documents from the root of the repository.
func documents(t *testing.T, root string) []string {
	t.Helper()
	paths := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		path, err = filepath.Rel(root, path)
		paths = append(paths, filepath.ToSlash(path))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// parse returns the blocks of a document, and its text without them.
func parse(t *testing.T, root, document string) (blocks []Block, prose string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	var block *Block
	var outside strings.Builder
	before, indent, n := "", "", 0
	for line := range strings.Lines(string(text)) {
		n++
		f := fence.FindStringSubmatch(line)
		switch {
		case block != nil && f != nil:
			blocks, block = append(blocks, *block), nil
		case block != nil:
			block.Text += strings.TrimPrefix(line, indent)
		case f != nil:
			indent = f[1]
			block = &Block{Document: document, Line: n + 1, Language: f[2]}
			if m := mark.FindStringSubmatch(before); m != nil {
				block.Mark, block.Argument = m[1], m[2]
			}
		default:
			outside.WriteString(line)
		}
		before = strings.TrimSpace(line)
	}
	if block != nil {
		t.Errorf("%s: the block of line %d has no end", document, block.Line)
	}
	return blocks, outside.String()
}
