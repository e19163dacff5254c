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
	var text, whole strings.Builder
	isPlain := true
	for i, p := range t {
		kind, part := "text", p.text
		if p.entry != isText {
			kind, part = "value", entries[p.entry].Value
			if i+2 < len(t) && strings.IndexByte(part, t[i+1].text[0]) >= 0 {
				isPlain = false
			}
		}
		text.WriteString(part)
		whole.WriteString(kind + strconv.Itoa(len(part)) + ":" + part)
	}
	if isPlain {
		if name, ok := valid(text.String()); ok {
			return name
		}
	}
	sum := sha256.Sum256([]byte(whole.String()))
	return "h-" + hex.EncodeToString(sum[:len(sum)/2])
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
