package expression

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Shape is the constant part of a write: its expressions, and the attribute names
// behind their aliases. It is immutable; requests point into it.
type Shape struct {
	Update, Condition string
	Names             map[string]string
	// Members are all of that as members of a request, in JSON.
	Members string
	// Limits are the names of the limits, without the hidden one.
	Limits []string
}

// compile makes the text of a key.
func compile(key string) (*Shape, error) {
	c := compiler{
		rest: key, names: make(map[string]string), limits: make(map[int]string), positions: make(map[int]string),
		reservations: make(map[int]store.Reservation),
		sets:         clause{separator: ","}, removes: clause{separator: ","}, adds: clause{separator: ","},
	}
	for i := range c.conditions {
		c.conditions[i].separator = " AND "
	}
	for len(c.rest) > 0 {
		if err := c.operation(); err != nil {
			return nil, err
		}
	}
	update := clause{separator: " "}
	for _, part := range []struct {
		keyword string
		of      *clause
	}{{"SET ", &c.sets}, {"REMOVE ", &c.removes}, {"ADD ", &c.adds}} {
		if !part.of.isEmpty() {
			update.part(part.keyword + part.of.text.String())
		}
	}
	condition, one, other := &c.conditions[always], &c.conditions[first], &c.conditions[second]
	switch {
	case !one.isEmpty() && !other.isEmpty():
		condition.part("(" + one.text.String() + " OR " + other.text.String() + ")")
	case !one.isEmpty():
		condition.part(one.text.String())
	case !other.isEmpty():
		condition.part(other.text.String())
	}
	sh := &Shape{Update: update.text.String(), Condition: condition.text.String(), Names: c.names, Limits: c.named}
	sh.Members = sh.members()
	return sh, nil
}

// members encodes the shape. No expression or name of ours has a character with an escape.
func (sh *Shape) members() string {
	names := clause{separator: ","}
	for _, alias := range slices.Sorted(maps.Keys(sh.Names)) {
		names.part(`"` + alias + `":"` + sh.Names[alias] + `"`)
	}
	return `"ConditionExpression":"` + sh.Condition + `","ExpressionAttributeNames":{` + names.text.String() +
		`},"UpdateExpression":"` + sh.Update + `"`
}

// A compiler reads the operations of a key, and assembles the expressions.
type compiler struct {
	rest                string // of the key
	names               map[string]string
	limits, positions   map[int]string // names by number
	reservations        map[int]store.Reservation
	named               []string // limits that are not hidden
	sets, removes, adds clause
	conditions          [second + 1]clause
}

// A clause is a list of parts with a separator.
type clause struct {
	text      strings.Builder
	separator string
}

func (c *clause) isEmpty() bool { return c.text.Len() == 0 }

func (c *clause) part(text string) {
	if !c.isEmpty() {
		c.text.WriteString(c.separator)
	}
	c.text.WriteString(text)
}

// operation reads one operation and adds its text to its clause.
func (c *compiler) operation() error {
	b := c.byte()
	f, among := form(b&(1<<alternativeShift-1)), alternative(b>>alternativeShift)
	switch f {
	case declareLimit:
		i, name := c.number(), c.text()
		c.limits[i], c.named = name, append(c.named, name)
		return store.CheckLimitName(name)
	case declarePosition:
		i, name := c.number(), c.text()
		c.positions[i] = name
		return checkPosition(name)
	case declareReservation:
		i, of := c.number(), store.Reservation{Entry: c.text(), Limit: c.text()}
		c.reservations[i] = of
		return cmp.Or(checkEntry(of.Entry), store.CheckLimitName(of.Limit))
	case declareWriteLimit:
		c.limits[c.number()] = schema.WCU
	case set, copied, gained, gainedUntil:
		c.sets.part(c.expand(f))
	case remove:
		c.removes.part(c.expand(f))
	case add:
		c.adds.part(c.expand(f))
	default:
		c.conditions[among].part(c.expand(f))
	}
	return nil
}

// checkPosition validates the name of a position.
func checkPosition(name string) error {
	const shortest, longest = 2, 17
	if len(name) >= shortest && len(name) <= longest && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == "" {
		return nil
	}
	return &store.ValidationError{Field: "position", Value: name, Reason: "give 2 to 17 lower-case letters and digits"}
}

// checkEntry validates the name of an entry.
func checkEntry(name string) error {
	const longest = 32
	if len(name) > store.ProcessLength && len(name) <= longest && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == "" {
		return nil
	}
	return &store.ValidationError{Field: "entry", Value: name, Reason: "give 9 to 32 lower-case letters and digits"}
}

// expand reads the operands of an operation and puts them into its template.
func (c *compiler) expand(f form) string {
	var attrs [maxAttrs]string
	var values [2]string
	for i := range operands[f].attrs {
		attrs[i] = c.attr()
	}
	for i := range operands[f].values {
		values[i] = c.text()
	}
	var text strings.Builder
	next := 0
	for _, sign := range templates[f] {
		switch sign {
		case '#':
			text.WriteString(attrs[0])
		case '@':
			text.WriteString(attrs[1])
		case '%':
			text.WriteString(attrs[2])
		case ':':
			text.WriteString(values[next])
			next++
		default:
			text.WriteRune(sign)
		}
	}
	return text.String()
}

// attr reads an attribute, gives it a name and returns its alias.
func (c *compiler) attr() string {
	kind := c.byte()
	if !numbered(kind) {
		a := fixed[kind]
		if a.alias != a.name {
			c.names[a.alias] = a.name
		}
		return a.alias
	}
	i := c.number()
	var alias, name string
	switch kind {
	case diaryOpened:
		alias, name = "#o"+ordinal(i), schema.OpenedAttr(c.limits[i])
	case position:
		alias, name = "#q"+ordinal(i), schema.PositionAttr(c.positions[i])
	case reservation:
		of := c.reservations[i]
		alias, name = "#e"+ordinal(i), schema.ReservationAttr(of.Entry, of.Limit)
	case diaryGained:
		alias, name = "#g"+ordinal(i), schema.GainedAttr(c.limits[i])
	default:
		field := int(kind - firstField)
		alias, name = "#"+string(rune('A'+field))+ordinal(i), schema.LimitAttr(c.limits[i], schema.LimitFields[field])
	}
	c.names[alias] = name
	return alias
}

func (c *compiler) byte() byte {
	b := c.rest[0]
	c.rest = c.rest[1:]
	return b
}

func (c *compiler) number() (n int) {
	for shift := 0; ; shift += 7 {
		b := c.byte()
		n |= int(b&(moreFollows-1)) << shift
		if b < moreFollows {
			return n
		}
	}
}

func (c *compiler) text() string {
	n := c.number()
	s := c.rest[:n]
	c.rest = c.rest[n:]
	return s
}
