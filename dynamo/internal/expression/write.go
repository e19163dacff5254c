package expression

import "github.com/zeroae/zae-limiter-go/internal/schema"

// A Write records the operations and the values of one write. Its zero value has none.
//
// An operation appends itself to the key, and nothing else: [Cache] makes the text of
// the key. A [Value] comes from the method that gives its value. So no operation can be
// in the key but not in the text, or name a value that was not given. A description
// must use every value that it gives, because DynamoDB rejects others.
type Write struct {
	values values
	key    key
}

// A Value is the alias of a value that a [Write] has been given.
type Value struct{ alias string }

// Number gives a number. The alias begins with ":"; letters, digits and "_" follow.
func (w *Write) Number(alias string, n int64) Value {
	w.values.number(alias, n)
	return Value{alias}
}

// Text gives a string; see [Write.Number].
func (w *Write) Text(alias, s string) Value {
	w.values.text(alias, s)
	return Value{alias}
}

// Bool gives a boolean; see [Write.Number].
func (w *Write) Bool(alias string, b bool) Value {
	w.values.other(alias, schema.Bool(b))
	return Value{alias}
}

// Limit declares the limit with number i. Numbers are unique among the limits of a
// write.
func (w *Write) Limit(i int, name string) Limit {
	var room [operationRoom]byte
	w.key.add(appendText(appendNumber(appendForm(room[:0], declareLimit, always), i), name))
	return Limit{subject{w, i}}
}

// WriteLimit declares the hidden write limit as the limit with number i.
func (w *Write) WriteLimit(i int) Limit {
	var room [operationRoom]byte
	w.key.add(appendNumber(appendForm(room[:0], declareWriteLimit, always), i))
	return Limit{subject{w, i}}
}

// Position declares the position with number i. Numbers are unique among the positions of a write.
func (w *Write) Position(i int, name string) Position {
	var room [operationRoom]byte
	w.key.add(appendText(appendNumber(appendForm(room[:0], declarePosition, always), i), name))
	return Position{subject{w, i}}
}

// Reservation declares the reservation of an entry with number i. Numbers are unique among the
// reservations of a write.
func (w *Write) Reservation(i int, entry, limit string) Reservation {
	var room [operationRoom]byte
	w.key.add(appendText(appendText(appendNumber(appendForm(room[:0], declareReservation, always), i), entry), limit))
	return Reservation{subject{w, i}}
}

// Set sets an attribute to a value.
func (w *Write) Set(a Attr, v Value) {
	w.record(always, operation{set, [maxAttrs]Attr{a}, [2]Value{v}})
}

// Copy sets an attribute to what another one has before the write, or to a value if the
// item does not have that.
func (w *Write) Copy(a, from Attr, absent Value) {
	w.record(always, operation{copied, [maxAttrs]Attr{a, from}, [2]Value{absent}})
}

// SetDifference sets an attribute to the difference of two others before the write. A value
// stands for one that the item does not have.
func (w *Write) SetDifference(a, of, less Attr, absent Value) {
	w.record(always, operation{gained, [maxAttrs]Attr{a, of, less}, [2]Value{absent, absent}})
}

// SetGainUntil sets an attribute to the difference between a value and an attribute before the
// write. absent stands for an attribute that the item does not have.
func (w *Write) SetGainUntil(a Attr, until Value, less Attr, absent Value) {
	w.record(always, operation{gainedUntil, [maxAttrs]Attr{a, less}, [2]Value{until, absent}})
}

// Remove removes an attribute.
func (w *Write) Remove(a Attr) { w.record(always, operation{form: remove, attrs: [maxAttrs]Attr{a}}) }

// Add adds a value to a number.
func (w *Write) Add(a Attr, v Value) {
	w.record(always, operation{add, [maxAttrs]Attr{a}, [2]Value{v}})
}

// Require makes a condition a part of the write's condition. All parts must hold.
func (w *Write) Require(c Condition) { w.record(always, c.operation) }

// RequireFirst makes a condition a part of the first of two alternatives. All parts of
// one of the alternatives must hold, beside the other conditions. An alternative
// without parts does not count.
func (w *Write) RequireFirst(c Condition) { w.record(first, c.operation) }

// RequireSecond makes a condition a part of the second of two alternatives; see
// [Write.RequireFirst].
func (w *Write) RequireSecond(c Condition) { w.record(second, c.operation) }

// record appends an operation to the key.
func (w *Write) record(among alternative, o operation) {
	var room [operationRoom]byte
	code := appendForm(room[:0], o.form, among)
	for i := range operands[o.form].attrs {
		code = appendAttr(code, o.attrs[i])
	}
	for i := range operands[o.form].values {
		code = appendText(code, o.values[i].alias)
	}
	w.key.add(code)
}

// Shape returns the constant part of the write. A nil cache compiles without keeping the
// result. Shape fails with a [*store.ValidationError] if the name of a limit is invalid.
func (w *Write) Shape(c *Cache) (*Shape, error) { return c.get(w.key.bytes()) }

// Values returns the values of the write. They share memory with it.
func (w *Write) Values() Values { return w.values.byAlias() }

// AppendValues appends the values to a request in JSON, as members of an object.
func (w *Write) AppendValues(to []byte) []byte { return w.values.appendJSON(to) }
