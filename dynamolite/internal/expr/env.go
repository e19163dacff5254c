package expr

import (
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// An Env holds the definitions of a request for its expressions: names and values by placeholder.
// It serves one request and is not for concurrent use.
//
// A request has several expressions and one set of definitions. AWS refuses a definition that none
// of the expressions uses, so something has to see all of them. The Env also has the room for their
// bindings. One allocation thus serves a usual request, and no expression needs slices of its own.
type Env struct {
	// Both are the caller's own and are only read. nil and empty differ: AWS refuses an empty set,
	// see Unused.
	names  map[string]string
	values value.Item

	// texts are the expressions bound so far; used backs their first few, as
	// the buffers back their names and values.
	texts []*text
	used  [3]*text
	// The sizes fit a condition and an update of a program's larger requests. nfill and vfill are
	// how much of them is in use. A part that is handed out is not taken back, so bindings never
	// overlap.
	nbuf  [20]string
	vbuf  [24]value.AV
	nfill int
	vfill int
}

// NewEnv makes the Env of a request from its ExpressionAttributeNames and
// ExpressionAttributeValues. It neither copies nor changes them: the caller must not change them
// until the request is done. Only expressions that use them, and [Env.Unused], read them.
func NewEnv(names map[string]string, values value.Item) *Env {
	return &Env{names: names, values: values}
}

// bind resolves the placeholders of a text. The values are checked and in stored form. A string
// or number may still be the caller's own and must not be kept.
//
// The order of the errors is that of AWS: names before values, and both in the order of their first
// use. A value is checked only when an expression uses it, so a malformed value that none uses is
// reported as unused. A text counts as used once it is bound. [Env.Unused] therefore says nothing
// about a request with an error.
func (e *Env) bind(member string, t *text) (binding, error) {
	b := binding{
		names:  carve(e.nbuf[:], &e.nfill, len(t.names)),
		values: carve(e.vbuf[:], &e.vfill, len(t.values)),
	}
	for i, placeholder := range t.names {
		name, ok := e.names[placeholder]
		if !ok {
			return b, invalid(member, errorf("An expression attribute name used in the document path is not defined; attribute name: %s", placeholder))
		}
		if name == "" || len(name) > 65535 {
			return b, errorf("ExpressionAttributeNames contains invalid value: Attribute names must be between 1 and 65535 bytes long for key %s", placeholder)
		}
		b.names[i] = name
	}
	for i, placeholder := range t.values {
		v, ok := e.values[placeholder]
		if !ok {
			return b, invalid(member, errorf("An expression attribute value used in expression is not defined; attribute value: %s", placeholder))
		}
		w, err := value.Check(v)
		if err != nil {
			return b, errorf("ExpressionAttributeValues contains invalid value: %s for key %s", err.Error(), placeholder)
		}
		b.values[i] = w
	}
	if e.texts == nil {
		e.texts = e.used[:0]
	}
	e.texts = append(e.texts, t)
	return b, nil
}

// carve takes n elements of buf, or allocates them if buf is used up. The result has no spare
// capacity, so an append to it cannot reach into the next one's part.
func carve[T any](buf []T, fill *int, n int) []T {
	if n > len(buf)-*fill {
		return make([]T, n)
	}
	*fill += n
	return buf[*fill-n : *fill : *fill]
}

// Unused returns an [*Error] in three cases: the request defines a name or value that no
// expression uses, it defines any without an expression, or it has an empty set of either. Call
// it after all expressions of the request are parsed.
func (e *Env) Unused() error {
	if e.names != nil && (len(e.names) == 0 || e.usedOf(sortedNames) != len(e.names)) {
		return unused("ExpressionAttributeNames", "#", slices.Sorted(maps.Keys(e.names)), e.texts, sortedNames)
	}
	if e.values != nil && (len(e.values) == 0 || e.usedOf(sortedValues) != len(e.values)) {
		return unused("ExpressionAttributeValues", ":", slices.Sorted(maps.Keys(e.values)), e.texts, sortedValues)
	}
	return nil
}

func sortedNames(t *text) []string  { return t.sortedNames }
func sortedValues(t *text) []string { return t.sortedValues }

// usedOf counts the placeholders that any text uses. All of them are defined, because otherwise
// binding would have failed. If their number equals the number of definitions, all definitions are
// used. So the usual case compares two numbers and builds no set. A placeholder counts with the
// first text that has it.
func (e *Env) usedOf(list func(*text) []string) int {
	n := 0
	for i, t := range e.texts {
		for _, placeholder := range list(t) {
			if !isUsed(placeholder, e.texts[:i], list) {
				n++
			}
		}
	}
	return n
}

func isUsed(placeholder string, texts []*text, list func(*text) []string) bool {
	for _, t := range texts {
		if _, ok := slices.BinarySearch(list(t), placeholder); ok {
			return true
		}
	}
	return false
}

// unused returns the error for a member that has unused placeholders. It is for errors only and may
// be slow. Its checks have the order of AWS: an empty set, no expression, a malformed key, keys
// that nothing uses.
func unused(member, mark string, defined []string, texts []*text, list func(*text) []string) error {
	if len(defined) == 0 {
		return errorf("%s must not be empty", member)
	}
	if len(texts) == 0 {
		return errorf("%s can only be specified when using expressions", member)
	}
	var rest []string
	for _, key := range defined {
		if key == "" || key[:1] != mark || wordEnd(key, 1) != len(key) || len(key) == 1 {
			return errorf("%s contains invalid key: Syntax error; key: %q", member, key)
		}
		if !isUsed(key, texts, list) {
			rest = append(rest, key)
		}
	}
	return errorf("Value provided in %s unused in expressions: keys: {%s}", member, strings.Join(rest, ", "))
}
