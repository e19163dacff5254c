package mapping

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// A template makes a name of the values of a descriptor: "ip-{remote_address}".
//
// Different values make different names. With two variables, "{a}-{b}", the values "x-y" and "z"
// would make the name of "x" and "y-z". So where a value has the character that ends it, the name
// is a hash. So is a name that is too long: a client may have chosen the values, and must not get
// around its limit with an error.
type template []segment

// A segment is a text, or the value of an entry.
type segment struct {
	text  string
	entry int // the number of the entry, or isText
}

const isText = -1

// parseTemplate reads a template. Its variables are the keys of entries that take any value.
func parseTemplate(text string, entries []pattern) (template, error) {
	var t template
	for rest := text; rest != ""; {
		if rest[0] != '{' {
			end := strings.IndexByte(rest, '{')
			if end < 0 {
				end = len(rest)
			}
			t, rest = append(t, segment{rest[:end], isText}), rest[end:]
			continue
		}
		key, after, isClosed := strings.Cut(rest[1:], "}")
		i := slices.IndexFunc(entries, func(p pattern) bool { return p.any && p.key == key })
		switch {
		case !isClosed:
			return nil, errors.New("a brace is open: close it with }")
		case i < 0:
			return nil, fmt.Errorf("no entry of the rule takes any value of %q: put keys of such entries between braces", key)
		case len(t) > 0 && t[len(t)-1].entry != isText:
			return nil, errors.New("put a character between two variables: it ends the first one")
		}
		t, rest = append(t, segment{"", i}), after
	}
	return t, nil
}

// name is the name for the entries of a descriptor. The function makes a valid name of a text, if
// it can.
func (t template) name(entries []Entry, valid func(string) (string, bool)) string {
	if t.isPlain(entries) {
		if name, ok := valid(t.text(entries)); ok {
			return name
		}
	}
	return t.hash(entries)
}

// hash is the name where the text for entries is none.
func (t template) hash(entries []Entry) string {
	var whole strings.Builder
	for _, p := range t {
		kind, part := "text", p.of(entries)
		if p.entry != isText {
			kind = "value"
		}
		whole.WriteString(kind + strconv.Itoa(len(part)) + ":" + part)
	}
	sum := sha256.Sum256([]byte(whole.String()))
	return "h-" + hex.EncodeToString(sum[:len(sum)/2])
}

// of is the text of a segment for entries.
func (p *segment) of(entries []Entry) string {
	if p.entry == isText {
		return p.text
	}
	return entries[p.entry].Value
}

// isPlain reports whether no value has the character that ends it.
func (t template) isPlain(entries []Entry) bool {
	for i := range t {
		if t[i].entry != isText && i+2 < len(t) && strings.IndexByte(t[i].of(entries), t[i+1].text[0]) >= 0 {
			return false
		}
	}
	return true
}

// text is the text for entries.
func (t template) text(entries []Entry) string {
	if len(t) == 1 {
		return t[0].of(entries)
	}
	var text strings.Builder
	for i := range t {
		text.WriteString(t[i].of(entries))
	}
	return text.String()
}

// sample is the text with x for each variable.
func (t template) sample() string {
	var text strings.Builder
	for _, p := range t {
		if p.entry != isText {
			p.text = "x"
		}
		text.WriteString(p.text)
	}
	return text.String()
}

// entityName is the ID of an entity of a name; see [limiter.EncodeName].
func entityName(text string) (string, bool) {
	id := limiter.EncodeName(text)
	return id, store.CheckEntity(id) == nil
}

func resourceName(text string) (string, bool) { return text, store.CheckResource(text) == nil }
