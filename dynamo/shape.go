package dynamo

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A shape is the constant part of a bucket write: its expressions, and the attribute
// names behind their aliases. Aliases are positional, because limit names may hold "."
// and "-". Writes that name the same limits in the same way therefore share one shape.
// A shape is immutable; requests point into it.
//
// DynamoDB accepts 4 KB for an expression, and 300 operators and functions. Every shape
// stays within both for [store.MaxLimits] limits, whatever their names: a limit needs
// at most eight operators of a condition, and its aliases are two or three characters
// long. That also holds for a write that replaces all limits by as many others.
type shape struct {
	update, condition string
	names             map[string]string
}

// shapes caches shapes by key. Reading takes no lock: a new shape replaces the whole
// map, and after a while no new shapes appear.
type shapes struct {
	byKey atomic.Pointer[map[string]*shape]
	mu    sync.Mutex
}

// maxShapes bounds the cache. A full cache is emptied: more combinations of limits
// occur only if users invent limit names.
const maxShapes = 4096

// get returns the shape with a key. build makes it if the cache has none.
func (s *shapes) get(key []byte, build func() (*shape, error)) (*shape, error) {
	if m := s.byKey.Load(); m != nil {
		if sh, ok := (*m)[string(key)]; ok {
			return sh, nil
		}
	}
	sh, err := build()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[string]*shape)
	if m := s.byKey.Load(); m != nil && len(*m) < maxShapes {
		maps.Copy(next, *m)
	}
	next[string(key)] = sh
	s.byKey.Store(&next)
	return sh, nil
}

// A shapeBuilder assembles an update and a condition.
type shapeBuilder struct {
	set, remove, add, condition clause
	names                       map[string]string
	terse                       bool  // few operators are left for each limit
	err                         error // the error of the first invalid limit name
}

// A clause is a list of parts with a separator.
type clause struct {
	b   strings.Builder
	sep string
}

func (c *clause) part(parts ...string) {
	if c.b.Len() > 0 {
		c.b.WriteString(c.sep)
	}
	for _, p := range parts {
		c.b.WriteString(p)
	}
}

func newShapeBuilder() *shapeBuilder {
	return &shapeBuilder{
		set: clause{sep: ","}, remove: clause{sep: ","}, add: clause{sep: ","}, condition: clause{sep: " AND "},
		names: make(map[string]string),
	}
}

// name gives an attribute an alias.
func (b *shapeBuilder) name(alias, attr string) string {
	b.names[alias] = attr
	return alias
}

// check keeps the error of the first invalid limit name.
func (b *shapeBuilder) check(limit string) {
	if b.err == nil {
		b.err = store.CheckLimitName(limit)
	}
}

// field gives field f of limit number i an alias: the number after a capital letter for
// the field, which no other attribute's alias begins with.
func (b *shapeBuilder) field(i int, limit, f string) string {
	letter := 'A' + slices.Index(schema.LimitFields[:], f)
	return b.name("#"+string(rune(letter))+ordinal(i), schema.LimitAttr(limit, f))
}

// within requires that a value lies between two others. It is one operator, and the
// server rejects bounds in the wrong order.
func (b *shapeBuilder) within(value, least, most string) {
	b.condition.part(value, " BETWEEN ", least, " AND ", most)
}

func (b *shapeBuilder) shape() (*shape, error) {
	if b.err != nil {
		return nil, b.err
	}
	var update strings.Builder
	for _, c := range []struct {
		keyword string
		clause  *clause
	}{{"SET ", &b.set}, {"REMOVE ", &b.remove}, {"ADD ", &b.add}} {
		if c.clause.b.Len() == 0 {
			continue
		}
		if update.Len() > 0 {
			update.WriteByte(' ')
		}
		update.WriteString(c.keyword)
		update.WriteString(c.clause.b.String())
	}
	return &shape{update: update.String(), condition: b.condition.b.String(), names: b.names}, nil
}

// Every write to a bucket item, of whatever shape, debits the hidden write limit,
// because every write loads the item's partition.
var (
	writeDebit = schema.N(-schema.WCUCost)
	writeCost  = schema.N(schema.WCUCost)
)

// debitWrite adds the part of an update that debits the hidden write limit.
func (b *shapeBuilder) debitWrite() {
	b.add.part(b.name("#w", schema.WCUTokens), " :w")
	b.add.part(b.name("#x", schema.WCUConsumed), " :x")
}

// stateSK is the sort key of every bucket item.
var stateSK = schema.S(schema.StateSK)

// alias is the alias of a value of limit number i: a capital letter, given as 'a' to
// 'z', and the number. No other alias begins with a capital letter. Nearly all aliases
// in use are among the first ones, which are made once.
func alias(letter byte, i int) string {
	if i < len(aliases) {
		return aliases[i][letter-'a']
	}
	return newAlias(letter, i)
}

func newAlias(letter byte, i int) string { return ":" + string(rune('A'+letter-'a')) + ordinal(i) }

var aliases = func() (a [16][26]string) {
	for i := range a {
		for letter := range a[i] {
			a[i][letter] = newAlias('a'+byte(letter), i)
		}
	}
	return a
}()

// ordinal is the number at the end of an alias: one character up to 61.
func ordinal(i int) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if i < len(digits) {
		return digits[i : i+1]
	}
	return ordinal(i/len(digits)) + ordinal(i%len(digits))
}
