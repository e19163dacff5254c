package store

import "strings"

// escape begins the two hexadecimal digits of an encoded byte. It begins with a letter,
// because an ID must, and is rare in IDs.
const escape = "Z_"

const hexDigits = "0123456789ABCDEF"

// EncodeName makes an entity's ID of any name. Identity providers give names that
// [CheckEntity] rejects, "auth0|5f7c" or "alice+test@example.com" for instance.
//
// Letters, digits and "_.-:@" stay as they are. Any other byte becomes "Z_" and its two
// hexadecimal digits in upper case: "auth0Z_7C5f7c". So does a first byte that is no letter
// or digit, and a "Z" that would otherwise look like the beginning of an encoded byte.
// Every valid ID without "Z_" and two such digits is its own encoding.
//
// Different names have different encodings, and [DecodeName] reverses them. An encoding is a
// valid ID if the name is not empty and the encoding is not too long. Names of at most 64
// bytes never are.
func EncodeName(name string) string {
	plain := 0 // the first bytes that stay as they are
	for plain < len(name) && !needsEscape(name, plain) {
		plain++
	}
	if plain == len(name) {
		return name
	}
	var b strings.Builder
	b.Grow(len(name) + len(name)/2 + 8)
	b.WriteString(name[:plain])
	for i := plain; i < len(name); i++ {
		c := name[i]
		if !needsEscape(name, i) {
			b.WriteByte(c)
			continue
		}
		b.WriteString(escape)
		b.WriteByte(hexDigits[c>>4])
		b.WriteByte(hexDigits[c&15])
	}
	return b.String()
}

// needsEscape reports whether EncodeName encodes the byte at an index.
func needsEscape(name string, i int) bool {
	switch c := name[i]; {
	case c == escape[0]:
		_, is := escapedAt(name, i)
		return is
	case isAlphanumeric(c):
		return false
	default:
		return i == 0 || strings.IndexByte(entityMarks, c) < 0
	}
}

// escapedAt returns the byte that is encoded at an index, if one is.
func escapedAt(s string, i int) (c byte, ok bool) {
	const size = len(escape) + 2
	if len(s)-i < size || s[i:i+len(escape)] != escape {
		return 0, false
	}
	high, low := strings.IndexByte(hexDigits, s[i+size-2]), strings.IndexByte(hexDigits, s[i+size-1])
	return byte(high<<4 | low), high >= 0 && low >= 0 //nolint:gosec // two digits make a byte
}

// DecodeName returns the name of which [EncodeName] made an ID. It fails with a
// [*ValidationError] if EncodeName makes that ID of no name.
func DecodeName(id string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(id); i++ {
		if c, ok := escapedAt(id, i); ok {
			b.WriteByte(c)
			i += len(escape) + 1
			continue
		}
		b.WriteByte(id[i])
	}
	if name := b.String(); EncodeName(name) == id {
		return name, nil
	}
	return "", &ValidationError{Field: "encoded name", Value: id, Reason: "EncodeName makes this of no name; give an ID that it has made"}
}
