package cli

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// helpColumns is the width of help, which every terminal has.
const helpColumns = 80

// rewrapped breaks a text anew into lines of [helpColumns]. Lines that begin at the margin make a
// paragraph. An indented line is an item of a list; further lines of the item are indented more.
func rewrapped(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		last := len(lines) - 1
		if last >= 0 && lines[last] != "" && line != "" && continues(lines[last], line) {
			lines[last] += " " + strings.TrimSpace(line)
			continue
		}
		lines = append(lines, line)
	}
	for i, line := range lines {
		lines[i] = wrapped(line, "", hanging(line))
	}
	return strings.Join(lines, "\n")
}

// continues reports whether a line continues the paragraph or the item before it.
func continues(before, line string) bool {
	from, to := indent(before), indent(line)
	return from == 0 && to == 0 || from > 0 && to > from
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// itemStart matches the word of an item and the space before its text.
var itemStart = regexp.MustCompile(`^ +\S+(?: \S+)*  +`)

// hanging is the indentation of further lines of a line.
func hanging(line string) int {
	if start := itemStart.FindString(line); start != "" {
		return utf8.RuneCountInString(start)
	}
	return indent(line)
}

// wrapped breaks a line at spaces where it is wider than help. Broken lines end with the end,
// and further ones are indented.
func wrapped(line, end string, indented int) string {
	var b strings.Builder
	for utf8.RuneCountInString(line) > helpColumns {
		at := strings.LastIndex(string([]rune(line)[:helpColumns-len(end)+1]), " ")
		if at <= max(indent(line), indented) {
			break // one word
		}
		b.WriteString(line[:at] + end + "\n")
		line = strings.Repeat(" ", indented) + strings.TrimLeft(line[at:], " ")
	}
	b.WriteString(line)
	return b.String()
}
