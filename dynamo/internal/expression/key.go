package expression

// An alternative says to which part of a condition an operation belongs.
type alternative byte

const (
	always alternative = iota
	first
	second
)

// alternativeShift keeps the alternative apart from the form, in one byte.
const alternativeShift = 5

// keyRoom is the length of the keys that need no allocation. The key of a write to
// about ten limits fits.
const keyRoom = 768

// A key encodes operations, so that equal keys are equal operations: each begins with
// its form, which tells how many operands follow, and each operand tells where it ends.
// It holds no pointer into itself, so it stays on its user's stack.
type key struct {
	head [keyRoom]byte
	used int
	long []byte // if not nil, the whole key, which head does not hold
}

// add makes the key longer.
func (k *key) add(part []byte) {
	if k.long == nil && k.used+len(part) <= keyRoom {
		k.used += copy(k.head[k.used:], part)
		return
	}
	if k.long == nil {
		k.long = append(make([]byte, 0, 2*keyRoom), k.head[:k.used]...)
	}
	k.long = append(k.long, part...)
}

func (k *key) bytes() []byte {
	if k.long != nil {
		return k.long
	}
	return k.head[:k.used]
}

// operationRoom is enough for nearly every operation, so that encoding it needs no
// allocation.
const operationRoom = 96

// The functions below append an element of an operation to its encoding.

func appendForm(to []byte, f form, a alternative) []byte {
	return append(to, byte(f)|byte(a)<<alternativeShift)
}

func appendAttr(to []byte, a Attr) []byte {
	kind := byte(a)
	if to = append(to, kind); numbered(kind) {
		to = appendNumber(to, int(a>>numberShift))
	}
	return to
}

// moreFollows is set in each byte of a number but the last one. The other bits are the
// digits, the lowest ones first.
const moreFollows = 0x80

func appendNumber(to []byte, n int) []byte {
	for ; n >= moreFollows; n >>= 7 {
		to = append(to, byte(n)|moreFollows)
	}
	return append(to, byte(n))
}

func appendText(to []byte, s string) []byte { return append(appendNumber(to, len(s)), s...) }
