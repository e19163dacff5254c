package expr

import "strings"

// A kind of token.
type tokenKind uint8

const (
	tokEnd    tokenKind = iota
	tokWord             // a keyword, a function or an attribute name
	tokName             // #placeholder of a name
	tokValue            // :placeholder of a value
	tokNumber           // digits
	tokSign             // anything else: the token's text identifies it
)

// A token is a part of the text from start to end.
type token struct {
	kind       tokenKind
	start, end int
}

// A lexer splits a text into tokens. It looks one token ahead and remembers one for messages.
type lexer struct {
	text            string
	prev, tok, next token
}

func newLexer(text string) (*lexer, *Error) {
	l := &lexer{text: text}
	for range 2 {
		if err := l.advance(); err != nil {
			return nil, err
		}
	}
	l.prev = token{}
	return l, nil
}

// advance makes the next token the current one.
func (l *lexer) advance() *Error {
	l.prev, l.tok = l.tok, l.next
	next, err := l.scan(l.next.end)
	l.next = next
	return err
}

func (l *lexer) scan(i int) (token, *Error) {
	s := l.text
	for i < len(s) && strings.IndexByte(" \t\r\n", s[i]) >= 0 {
		i++
	}
	if i == len(s) {
		return token{tokEnd, i, i}, nil
	}
	start, c := i, s[i]
	i++
	switch {
	case isLetter(c):
		return token{tokWord, start, wordEnd(s, i)}, nil
	case isDigit(c):
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		return token{tokNumber, start, i}, nil
	case c == '#' || c == ':':
		end := wordEnd(s, i)
		if end == i {
			return token{}, l.syntaxAt(token{tokSign, start, i}, l.tok, token{tokEnd, i, i})
		}
		if c == '#' {
			return token{tokName, start, end}, nil
		}
		return token{tokValue, start, end}, nil
	case c == '<' && i < len(s) && (s[i] == '>' || s[i] == '='), c == '>' && i < len(s) && s[i] == '=':
		return token{tokSign, start, i + 1}, nil
	case strings.IndexByte("=<>()[].,+-", c) >= 0:
		return token{tokSign, start, i}, nil
	}
	return token{}, l.syntaxAt(token{tokSign, start, i}, l.tok, token{tokEnd, i, i})
}

func wordEnd(s string, i int) int {
	for i < len(s) && (isLetter(s[i]) || isDigit(s[i]) || s[i] == '_') {
		i++
	}
	return i
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (l *lexer) string(t token) string { return l.text[t.start:t.end] }

// sign reports whether the current token is that sign.
func (l *lexer) sign(s string) bool {
	return l.tok.kind == tokSign && l.string(l.tok) == s
}

// keyword reports whether the current token is that keyword, in any case.
func (l *lexer) keyword(word string) bool {
	return l.tok.kind == tokWord && strings.EqualFold(l.string(l.tok), word)
}

// accept skips that sign if it is the current token.
func (l *lexer) accept(s string) (bool, *Error) {
	if !l.sign(s) {
		return false, nil
	}
	return true, l.advance()
}

// expect skips that sign, which must be the current token.
func (l *lexer) expect(s string) *Error {
	if !l.sign(s) {
		return l.syntax()
	}
	return l.advance()
}

// syntax returns the error for a current token that is out of place.
func (l *lexer) syntax() *Error { return l.syntaxAt(l.tok, l.prev, l.next) }

func (l *lexer) syntaxAt(t, before, after token) *Error {
	what := "<EOF>"
	if t.kind != tokEnd {
		what = l.string(t)
	}
	return errorf("Syntax error; token: \"%s\", near: \"%s\"", what, l.text[before.start:max(t.end, after.end)])
}
