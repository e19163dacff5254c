package logs

import (
	"encoding/binary"
	"math/bits"
)

// plainLine finds the fields of a line whose strings have no escapes, in one pass. It
// gives up on any other line, and on what is no JSON: the decoder then reads the line, and
// says what is wrong. Most lines of most logs are plain, and the decoder takes four times
// as long. A fuzz target compares the two.
type plainLine struct {
	line   []byte
	at     int // the next byte
	values []value
	pass   int64
}

// split reports whether the line is plain. If it is not, some values may be set. The pass
// differs from line to line.
func (p *plainLine) split(root *field, pass int64, line []byte, values []value) bool {
	p.line, p.at, p.values, p.pass = line, 0, values, pass
	const depth = 64
	if p.next() != '{' || !p.object(root, depth) {
		return false
	}
	p.next()
	return p.at == len(line)
}

// next is the next byte that is no space, 0 at the end.
func (p *plainLine) next() byte {
	for p.at < len(p.line) {
		c := p.line[p.at]
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
		p.at++
	}
	return 0
}

// take passes over a byte, if it is the next that is no space.
func (p *plainLine) take(c byte) bool {
	if p.next() != c {
		return false
	}
	p.at++
	return true
}

// object passes over an object, and notes the wanted fields of f. A nil f wants none.
func (p *plainLine) object(f *field, depth int) bool {
	p.at++
	if p.take('}') {
		return true
	}
	for {
		if p.next() != '"' {
			return false
		}
		start := p.at
		if !p.text() {
			return false
		}
		wanted := f.named(p.line[start+1 : p.at-1])
		if wanted.isTwice(p.pass) || !p.take(':') || !p.value(wanted, depth-1) {
			return false
		}
		if !p.take(',') {
			return p.take('}')
		}
	}
}

// value passes over a value, and notes it if f is wanted. It fails at a wanted value that
// is neither a text nor a number, nor an array of one text.
func (p *plainLine) value(f *field, depth int) bool {
	c := p.next()
	start := p.at
	isWanted := f != nil && len(f.to) > 0
	switch {
	case depth == 0:
		return false
	case c == '"':
		if !p.text() {
			return false
		}
		if isWanted {
			f.put(p.values, p.line[start+1:p.at-1])
		}
		return true
	case c == '{':
		return !isWanted && p.object(f, depth)
	case c == '[':
		if isWanted {
			return p.onlyText(f)
		}
		return p.array(depth)
	case c == 'n':
		return p.word("null")
	case c == 't':
		return !isWanted && p.word("true")
	case c == 'f':
		return !isWanted && p.word("false")
	}
	if !p.number() {
		return false
	}
	if isWanted {
		f.put(p.values, p.line[start:p.at])
	}
	return true
}

// onlyText notes the text of an array that has nothing else.
func (p *plainLine) onlyText(f *field) bool {
	p.at++
	if p.next() != '"' {
		return false
	}
	start := p.at
	if !p.text() {
		return false
	}
	f.put(p.values, p.line[start+1:p.at-1])
	return p.take(']')
}

func (p *plainLine) array(depth int) bool {
	p.at++
	if p.take(']') {
		return true
	}
	for {
		if !p.value(nil, depth-1) {
			return false
		}
		if !p.take(',') {
			return p.take(']')
		}
	}
}

func (p *plainLine) word(w string) bool {
	end := p.at + len(w)
	if end > len(p.line) || string(p.line[p.at:end]) != w {
		return false
	}
	p.at = end
	return true
}

func (p *plainLine) number() bool {
	p.has("-")
	if !p.has("0") && !p.digits() {
		return false
	}
	if p.has(".") && !p.digits() {
		return false
	}
	if p.has("eE") {
		p.has("+-")
		return p.digits()
	}
	return true
}

// has passes over one byte if it is one of those.
func (p *plainLine) has(of string) bool {
	for i := range len(of) {
		if p.at < len(p.line) && p.line[p.at] == of[i] {
			p.at++
			return true
		}
	}
	return false
}

func (p *plainLine) digits() bool {
	start := p.at
	for p.at < len(p.line) && p.line[p.at]-'0' <= 9 {
		p.at++
	}
	return p.at > start
}

// text passes over a string, eight bytes at a time. It fails at an escape and at a control
// character.
func (p *plainLine) text() bool {
	i := p.at + 1
	const word = 8
	for ; i+word <= len(p.line); i += word {
		if found := special(binary.LittleEndian.Uint64(p.line[i:])); found != 0 {
			i += bits.TrailingZeros64(found) / word
			p.at = i + 1
			return p.line[i] == '"'
		}
	}
	for ; i < len(p.line); i++ {
		if c := p.line[i]; c == '"' || c == '\\' || c < ' ' {
			p.at = i + 1
			return c == '"'
		}
	}
	return false
}

// special marks with its highest bit the first byte of a word that is a quote, a backslash
// or a control character. Bytes after that may be marked wrongly.
func special(w uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^ones*'"', w^ones*'\\'
	return ((w-ones*' ')&^w | (quote-ones)&^quote | (backslash-ones)&^backslash) & highs
}
