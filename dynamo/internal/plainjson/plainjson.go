// Package plainjson reads the JSON that DynamoDB sends in the plain case: without spaces, and
// without escapes in strings (ADR 037).
package plainjson

import "strings"

// A Reader reads from the beginning of Rest. Once something is odd it reads nothing that
// counts.
type Reader struct {
	Rest string
	Odd  bool
}

// Skip reads a text if it is the next one.
func (r *Reader) Skip(text string) bool {
	rest, ok := strings.CutPrefix(r.Rest, text)
	r.Rest = rest
	return ok
}

// Expect reads a text.
func (r *Reader) Expect(text string) { r.Odd = !r.Skip(text) || r.Odd }

// Text reads a string.
func (r *Reader) Text() string {
	r.Expect(`"`)
	return r.Tail()
}

// Tail reads the rest of a string and the quote at its end.
func (r *Reader) Tail() string {
	for i := range len(r.Rest) {
		switch c := r.Rest[i]; {
		case c == '"':
			text := r.Rest[:i]
			r.Rest = r.Rest[i+1:]
			return text
		case c == '\\' || c < ' ':
			r.Odd = true
			return ""
		}
	}
	r.Odd = true
	return ""
}
