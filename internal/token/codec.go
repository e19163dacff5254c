package token

import (
	"encoding/binary"

	"github.com/zeroae/zae-limiter-go/store"
)

// flagDegraded is the flag of a degraded lease.
const flagDegraded = 1

// append appends the body.
func (l *Lease) append(b []byte) []byte {
	b = appendText(b, l.Namespace)
	b = binary.AppendUvarint(b, uint64(l.Made))
	b = append(b, l.Nonce[:]...)
	b = binary.AppendUvarint(b, uint64(l.Within))
	flags := byte(0)
	if l.Degraded {
		flags |= flagDegraded
	}
	b = append(b, flags)
	b = appendText(b, l.Entity)
	b = appendCount(b, len(l.Resources))
	of := l.version()
	for _, r := range l.Resources {
		b = appendText(b, r.Name)
		b = appendCount(b, len(r.Sides))
		for _, s := range r.Sides {
			b = s.append(b, l.Entity)
		}
		if of >= versionOwing {
			b = appendCount(b, len(r.Owes))
			for _, a := range r.Owes {
				b = appendText(b, a.Limit)
				b = appendAmount(b, a.Milli)
			}
		}
		if of == version {
			b = appendSlots(b, r.Slots, l.Entity)
		}
	}
	return b
}

// appendSlots appends what a lease of an entity holds of slots.
func appendSlots(b []byte, slots []Slots, entity string) []byte {
	b = appendCount(b, len(slots))
	for _, s := range slots {
		b = appendText(b, nameIn(s.Entity, entity))
		b = appendText(b, s.Limit)
		b = binary.AppendUvarint(b, uint64(s.Held)) //nolint:gosec // it is positive
	}
	return b
}

// nameIn is the name of an entity in a lease: "" is the lease's own.
func nameIn(name, own string) string {
	if name == own {
		return ""
	}
	return name
}

// append appends a side of a lease of an entity, whose own name is "".
func (s *Side) append(b []byte, entity string) []byte {
	b = appendText(b, nameIn(s.Entity, entity))
	b = appendCount(b, len(s.Held))
	for _, h := range s.Held {
		b = appendCount(b, h.Shard)
		b = appendCount(b, len(h.Amounts))
		for _, a := range h.Amounts {
			b = appendText(b, a.Limit)
			b = appendAmount(b, a.Milli)
			b = binary.AppendUvarint(b, uint64(a.Until-store.NoBalance)) // 0 is of no balance
		}
	}
	return b
}

// appendAmount appends millitokens: whole tokens as an even number, others as an odd one.
func appendAmount(b []byte, milli int64) []byte {
	if milli%store.Milli == 0 {
		return binary.AppendUvarint(b, uint64(milli/store.Milli)<<1)
	}
	return binary.AppendUvarint(b, uint64(milli)<<1|1)
}

func appendText(b []byte, s string) []byte { return append(appendCount(b, len(s)), s...) }

func appendCount(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) } //nolint:gosec // never negative

// A reader reads a body. After something that no body has, it reads zeros.
type reader struct {
	left   []byte
	failed bool
}

// parse reads a body. It fails with [ErrMalformed].
func parse(body []byte, of byte) (*Lease, error) {
	r := &reader{left: body}
	const maxSeconds = 1 << 32
	l := &Lease{Namespace: r.text(), Made: r.number(maxSeconds)}
	copy(l.Nonce[:], r.bytes(len(l.Nonce)))
	l.Within = r.number(maxSeconds)
	switch flags := r.number(flagDegraded); flags {
	case flagDegraded:
		l.Degraded = true
	default:
	}
	l.Entity = r.text()
	for range r.count() {
		res := r.resource(l.Entity)
		if of >= versionOwing {
			res.Owes = r.owes()
		}
		if of == version {
			res.Slots = r.slots(l.Entity)
		}
		l.Resources = append(l.Resources, res)
	}
	if r.failed || l.version() != of || len(r.left) > 0 || len(l.Resources) == 0 || l.CountHeld() > MaxHeld {
		return nil, ErrMalformed
	}
	return l, nil
}

func (r *reader) resource(entity string) Resource {
	of := Resource{Name: r.text()}
	for range r.count() {
		s := Side{Entity: r.nameIn(entity)}
		for range r.count() {
			s.Held = append(s.Held, r.held())
		}
		if len(s.Held) == 0 {
			r.failed = true
		}
		of.Sides = append(of.Sides, s)
	}
	return of
}

func (r *reader) held() Held {
	h := Held{Shard: int(r.number(store.MaxShards - 1))}
	for range r.count() {
		a := store.Amount{Limit: r.text(), Milli: r.amount()}
		const maxInstant = 1 << 53
		a.Until = r.number(maxInstant) + store.NoBalance
		if n := len(h.Amounts); n > 0 && h.Amounts[n-1].Limit >= a.Limit {
			r.failed = true
		}
		h.Amounts = append(h.Amounts, a)
	}
	return h
}

// nameIn reads the name of an entity in a lease of an entity.
func (r *reader) nameIn(own string) string {
	switch name := r.text(); name {
	case "":
		return own
	case own:
		r.failed = true
		return name
	default:
		return name
	}
}

// slots reads what a lease of an entity holds of slots.
func (r *reader) slots(entity string) (slots []Slots) {
	for range r.count() {
		s := Slots{Entity: r.nameIn(entity), Limit: r.text(), Held: r.number(store.MaxSlots)}
		if s.Held == 0 {
			r.failed = true
		}
		slots = append(slots, s)
	}
	return slots
}

// owes reads what a resource owes, by limit.
func (r *reader) owes() (owes []store.Amount) {
	for range r.count() {
		a := store.Amount{Limit: r.text(), Milli: r.amount()}
		if n := len(owes); a.Milli == 0 || n > 0 && owes[n-1].Limit >= a.Limit {
			r.failed = true
		}
		owes = append(owes, a)
	}
	return owes
}

// amount reads millitokens.
func (r *reader) amount() int64 {
	const most = store.MaxTokens * store.Milli
	n := r.number(most<<1 | 1)
	if n&1 == 0 {
		if n >>= 1; n > store.MaxTokens {
			r.failed = true
		}
		return n * store.Milli
	}
	if n >>= 1; n%store.Milli == 0 {
		r.failed = true
	}
	return n
}

// number reads a number from 0 to most, in as few bytes as it takes.
func (r *reader) number(most uint64) int64 {
	n, size := binary.Uvarint(r.left)
	if r.failed || size <= 0 || n > most || size > 1 && r.left[size-1] == 0 {
		r.failed = true
		return 0
	}
	r.left = r.left[size:]
	return int64(n) //nolint:gosec // most is less
}

// count reads how many things follow, of which each has a byte at least.
func (r *reader) count() int { return int(r.number(uint64(len(r.left)))) }

func (r *reader) text() string { return string(r.bytes(r.count())) }

func (r *reader) bytes(n int) []byte {
	if r.failed || n > len(r.left) {
		r.failed = true
		return nil
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}
