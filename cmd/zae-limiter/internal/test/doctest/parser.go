package doctest

import (
	"fmt"
	"strings"
)

// A parser reads the lines of a document.
type parser struct {
	document string
	blocks   []Block
	prose    strings.Builder
	problems []error

	n      int
	block  *Block // that the line is in
	indent string // of the block's lines
	before string // the line before
	inList bool   // the paragraph belongs to a list, whose paragraphs are indented
}

func (p *parser) wrong(line int, format string, args ...any) {
	p.problems = append(p.problems, fmt.Errorf("%s:%d: "+format, append([]any{p.document, line}, args...)...))
}

func (p *parser) line(line string) {
	p.n++
	f := fence.FindStringSubmatch(line)
	switch {
	case p.block != nil && f != nil:
		p.end()
	case p.block != nil:
		p.block.Text += strings.TrimPrefix(line, p.indent) + "\n"
	case f != nil:
		p.begin(f[1], strings.TrimSpace(f[2]))
	default:
		if line != "" {
			p.inList = item.MatchString(line) || p.inList && strings.HasPrefix(line, "  ")
		}
		if strings.HasPrefix(line, "    ") && p.before == "" && !p.inList {
			p.wrong(p.n, "the block is indented; give it a fence and a language")
		}
		p.prose.WriteString(line + "\n")
	}
	p.before = line
}

// begin begins a block. The comment in the line before is no text of the document.
func (p *parser) begin(indent, language string) {
	p.indent = indent
	p.block = &Block{Document: p.document, Line: p.n + 1, Language: language}
	if m := mark.FindStringSubmatch(strings.TrimSpace(p.before)); m != nil {
		p.block.Mark, p.block.Argument = m[1], m[2]
	}
}

func (p *parser) end() {
	b := p.block
	p.block = nil
	check, ok := b.check()
	switch {
	case !ok && b.Language == "":
		p.wrong(b.Line, "the block has no language: name one behind the fence, text if it has none")
	case !ok:
		p.wrong(b.Line, "no check is known for a block of %s with the mark %q: add a rule to cmd/zae-limiter/internal/test/doctest with a test that checks such blocks, or say why it cannot be tested, <!-- untested: REASON -->", b.Language, b.Mark)
	case check == Untested && b.Argument == "":
		p.wrong(b.Line, "say why the block is untested: <!-- untested: REASON -->")
	}
	b.Check = check
	p.blocks = append(p.blocks, *b)
}
