package direct

import "unicode/utf8"

// AppendText appends a string in JSON, with the SDK's escapes.
func AppendText(to []byte, v string) []byte {
	to = append(to, '"')
	done := 0
	for i := 0; i < len(v); {
		c := v[i]
		if c >= ' ' && c != '"' && c != '\\' && c < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(v[i:])
		escape, escaped := escapeOf(r, size)
		if escaped {
			to = append(append(to, v[done:i]...), escape...)
			done = i + size
		}
		i += size
	}
	return append(append(to, v[done:]...), '"')
}

// escapeOf returns how the SDK writes a character that is not plain ASCII.
func escapeOf(r rune, size int) (escape string, escaped bool) {
	const hex = "0123456789abcdef"
	switch {
	case r == '"':
		return `\"`, true
	case r == '\\':
		return `\\`, true
	case r == '\n':
		return `\n`, true
	case r == '\r':
		return `\r`, true
	case r == '\t':
		return `\t`, true
	case r < ' ' || r == 0x7f:
		return `\u00` + string([]byte{hex[r>>4], hex[r&0xf]}), true
	case r == '\u2028' || r == '\u2029':
		return `\u202` + string(hex[r&0xf]), true
	case r == utf8.RuneError && size == 1:
		return string(utf8.RuneError), true
	}
	return "", false
}
