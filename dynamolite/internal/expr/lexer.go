package expr

import (
	"strings"
	"unicode/utf8"
)

// A kind of token.
type tokenKind uint8

const (
	tokEnd    tokenKind = iota
	tokWord             // a keyword, a function or an attribute name
	tokName             // #placeholder of a name
	tokValue            // :placeholder of a value
	tokNumber           // digits
	tokSign             // any other character or pair: the token's text identifies it
)

// A token is a part of the text from start to end, in bytes. It does not hold its text: messages
// also need what lies between two tokens, as it was written.
type token struct {
	kind       tokenKind
	start, end int
}

// A lexer splits a text into tokens. It looks one token ahead and remembers one for messages. Any
// character that begins no other token is a sign of its own. So the parser, which accepts no such
// sign, reports it in its turn, with what follows it. Rejecting such a character here would report
// it before mistakes that come earlier in the text.
type lexer struct {
	text string
	// prev is the token before tok, and next the one after it. They are what AWS quotes as "near".
	// next also tells a function from a name: only a function has a parenthesis behind it.
	prev, tok, next token
}

// newLexer stands at the first token, which has no previous one. Filling next and then tok takes
// two steps.
func newLexer(text string) *lexer {
	l := &lexer{text: text}
	l.advance()
	l.advance()
	l.prev = token{}
	return l
}

// advance makes the next token the current one.
func (l *lexer) advance() { l.prev, l.tok, l.next = l.tok, l.next, l.scan(l.next.end) }

// scan returns the token that begins at i or after the white space there. The end of the text is a
// token of no length, any number of times. So the lexer can look beyond it.
func (l *lexer) scan(i int) token {
	s := l.text
	for i < len(s) && strings.IndexByte(" \t\r\n", s[i]) >= 0 {
		i++
	}
	if i == len(s) {
		return token{tokEnd, i, i}
	}
	start, c := i, s[i]
	i++
	switch {
	case isLetter(c):
		return token{tokWord, start, wordEnd(s, i)}
	case isDigit(c):
		for c != '0' && i < len(s) && isDigit(s[i]) { // a number has no leading zero
			i++
		}
		return token{tokNumber, start, i}
	case c == '#' && wordEnd(s, i) > i:
		return token{tokName, start, wordEnd(s, i)}
	case c == ':' && wordEnd(s, i) > i:
		return token{tokValue, start, wordEnd(s, i)}
	case c == '<' && i < len(s) && (s[i] == '>' || s[i] == '='), c == '>' && i < len(s) && s[i] == '=':
		return token{tokSign, start, i + 1}
	}
	_, size := utf8.DecodeRuneInString(s[start:])
	return token{tokSign, start, start + size}
}

// wordEnd returns the end of a run of letters, digits and underscores. A placeholder may begin with
// any of them after its mark, a word only with a letter. So the first character is the caller's
// concern.
func wordEnd(s string, i int) int {
	for i < len(s) && (isLetter(s[i]) || isDigit(s[i]) || s[i] == '_') {
		i++
	}
	return i
}

// isLetter knows ASCII only, as AWS does: other names need a placeholder. Setting bit 5 makes a
// capital letter small.
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// string returns a token as it is written in the text, whose memory it shares.
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
func (l *lexer) accept(s string) bool {
	if !l.sign(s) {
		return false
	}
	l.advance()
	return true
}

// expect skips that sign, which must be the current token.
func (l *lexer) expect(s string) *Error {
	if !l.accept(s) {
		return l.syntax()
	}
	return nil
}

// syntax returns the error for a current token that is out of place. It quotes the token and its
// neighbours, as AWS does. The text between them is copied as it stands, white space included.
func (l *lexer) syntax() *Error {
	what := "<EOF>"
	if l.tok.kind != tokEnd {
		what = l.string(l.tok)
	}
	return errorf("Syntax error; token: \"%s\", near: \"%s\"", what, l.text[l.prev.start:l.next.end])
}
