package expr

import (
	"slices"
	"strconv"
	"strings"
)

// maxIndex is the largest valid position in a list.
const maxIndex = 1<<31 - 1

// A parser builds the tree of one expression by recursive descent. The length of a text limits its
// depth: each level of recursion takes at least one byte of at most maxText.
//
// It finds mistakes of two kinds. An error of syntax ends the parse at once. Any other mistake,
// such as a reserved word or a wrong number of operands, is noted with object, and the parse goes
// on. The naive design returns the first mistake of either kind. AWS reports a syntax error at the
// end of a text even if a reserved word stands at its beginning. So the whole text has to be read
// before a mistake of the second kind may be reported.
//
// "size = :v AND" has one of each: a reserved word, and nothing behind AND. The answer names the
// second.
type parser struct {
	*lexer
	// refs has the placeholders met so far; its sorted lists are made by finish.
	refs text
	// operators counts the operators and functions, to be compared with maxOperators. Keywords of
	// an update's sections do not count.
	operators int
	// flaw is the first mistake that leaves the text well formed, such as a reserved word. An
	// error of syntax anywhere in the text is reported instead of it.
	flaw *Error
}

// newParser checks what needs no parsing. Both are errors of the text as a whole, which come before
// all others.
func newParser(s string) (*parser, *Error) {
	if s == "" {
		return nil, errorf("The expression can not be empty;")
	}
	if len(s) > maxText {
		return nil, errorf("Expression size has exceeded the maximum allowed size; expression size: %d", len(s))
	}
	return &parser{lexer: newLexer(s)}, nil
}

// object notes a mistake that leaves the text well formed. Only the first is kept, as AWS reports
// one. The caller goes on with any tree: a text with a flaw never yields one.
func (p *parser) object(err *Error) {
	if p.flaw == nil {
		p.flaw = err
	}
}

// finish checks that the text was used up and has no flaw, and returns its placeholders. The order
// of the checks is that of AWS: syntax, then flaws, then the number of operators.
func (p *parser) finish() (text, *Error) {
	if p.tok.kind != tokEnd {
		return text{}, p.syntax()
	}
	if p.flaw != nil {
		return text{}, p.flaw
	}
	if p.operators > maxOperators {
		return text{}, errorf("The expression contains too many operators; operator count: %d", p.operators)
	}
	p.refs.sortedNames = slices.Sorted(slices.Values(p.refs.names))
	p.refs.sortedValues = slices.Sorted(slices.Values(p.refs.values))
	return p.refs, nil
}

// slot returns the place of a placeholder among those met so far, and adds a new one. A scan is
// fast enough: a text of maxText bytes has few placeholders, and is parsed once.
func slot(all *[]string, placeholder string) int {
	i := slices.Index(*all, placeholder)
	if i < 0 {
		i = len(*all)
		*all = append(*all, placeholder)
	}
	return i
}

// parseValue reads the placeholder of a value.
func (p *parser) parseValue() (int, *Error) {
	if p.tok.kind != tokValue {
		return 0, p.syntax()
	}
	i := slot(&p.refs.values, p.string(p.tok))
	p.advance()
	return i, nil
}

// parsePath reads a name and any members and positions that follow it. The limit on elements is a
// flaw, so that a syntax error behind a deep path still has precedence.
func (p *parser) parsePath() (path, *Error) {
	first, err := p.parseName()
	if err != nil {
		return nil, err
	}
	out := path{first}
	for p.sign(".") || p.sign("[") {
		e, err := p.parseElement()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	if len(out) > maxPath {
		p.object(errorf("The document path has too many nesting levels; nesting levels: %d", len(out)))
	}
	return out, nil
}

// parseElement reads ".name" or "[position]". A position out of range is a flaw, too. The element
// that then results is never used.
func (p *parser) parseElement() (element, *Error) {
	inList := p.sign("[")
	p.advance()
	if !inList {
		return p.parseName()
	}
	if p.tok.kind != tokNumber {
		return element{}, p.syntax()
	}
	digits := p.string(p.tok)
	i, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || i > maxIndex {
		p.object(errorf("List index is not within the allowable range; index: [%s]", digits))
	}
	p.advance()
	return element{slot: -1, index: int(i)}, p.expect("]")
}

// parseName reads a name or the placeholder of one. A keyword of the grammar is a syntax error in
// this place. Any other reserved word is a flaw, because the text could still be read.
func (p *parser) parseName() (element, *Error) {
	name := p.string(p.tok)
	switch p.tok.kind {
	case tokName:
		p.advance()
		return element{slot: slot(&p.refs.names, name), index: -1}, nil
	case tokWord:
		if isKeyword(name) {
			return element{}, p.syntax()
		}
		if reservedWords()[strings.ToUpper(name)] {
			p.object(errorf("Attribute name is a reserved keyword; reserved keyword: %s", name))
		}
		p.advance()
		return element{name: name, slot: -1, index: -1}, nil
	default:
		return element{}, p.syntax()
	}
}

// isKeyword reports whether a word is one that the grammar itself uses. Reserved words are another
// list: REMOVE is not in it, and AWS answers to them with another error.
func isKeyword(word string) bool {
	switch strings.ToUpper(word) {
	case "AND", "OR", "NOT", "BETWEEN", "IN", "SET", "REMOVE", "ADD", "DELETE":
		return true
	}
	return false
}

// atCall reports whether a function's name and its parenthesis are next. "IN (" and "AND (" look
// like calls, so keywords are excluded. Any other word will do: an unknown function is a flaw and
// not a syntax error.
func (p *parser) atCall() bool {
	return p.tok.kind == tokWord && p.next.kind == tokSign && p.string(p.next) == "(" && !isKeyword(p.string(p.tok))
}

func errMisused(function string) *Error {
	return errorf("The function is not allowed to be used this way in an expression; function: %s", function)
}

func errOperandCount(function string, n int) *Error {
	return errorf("Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", function, n)
}

func errNeedsPath(function string) *Error {
	return errorf("Operator or function requires a document path; operator or function: %s", function)
}

var errRedundant = &Error{"The expression has redundant parentheses;"}
