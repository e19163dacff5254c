package doctest_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/doctest"
)

// mostWords is the length of the longest sentence that a reader takes in at once.
const mostWords = 25

var (
	codeSpan = regexp.MustCompile("`[^`]*`")
	linked   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	// paragraphEnd matches what separates paragraphs, items of lists, headings and rows of tables.
	paragraphEnd = regexp.MustCompile(`\n\s*(?:\n|[-*|#] ?|[0-9]+\. )`)
	sentenceEnd  = regexp.MustCompile(`[.!?:;]\)?(?:\*\*)?\s+`)
	word         = regexp.MustCompile(`[\pL\pN][^\s]*`)
)

// The sentences of the pages for users are short. Rows of tables are left out: a cell lists things.
func TestSentencesAreShort(t *testing.T) {
	t.Parallel()
	count := 0
	for document, text := range doctest.Prose(t, root) {
		if folder := filepath.Dir(document); folder != "." && folder != "docs" || document == "docs/permissions.md" {
			continue // made by commands, or for developers of this project
		}
		text = linked.ReplaceAllString(codeSpan.ReplaceAllString(rows.ReplaceAllString(text, "\n"), "code"), "$1")
		for _, paragraph := range paragraphEnd.Split(text, -1) {
			for _, sentence := range sentenceEnd.Split(paragraph, -1) {
				count++
				if n := len(word.FindAllString(sentence, -1)); n > mostWords {
					t.Errorf("%s: a sentence has %d words, more than %d:\n%s", document, n, mostWords, strings.Join(strings.Fields(sentence), " "))
				}
			}
		}
	}
	if count < 2000 {
		t.Errorf("found %d sentences: do the patterns still fit the documents?", count)
	}
}

// rows matches the rows of tables.
var rows = regexp.MustCompile(`(?m)^ *\|.*\n`)
