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

// room makes room for n more bytes, and reports whether head has it.
func (k *key) room(n int) bool {
	if k.long == nil && k.used+n <= keyRoom {
		return true
	}
	if k.long == nil {
		k.long = append(make([]byte, 0, 2*keyRoom), k.head[:k.used]...)
	}
	return false
}

func (k *key) byte(b byte) {
	if k.room(1) {
		k.head[k.used] = b
		k.used++
		return
	}
	k.long = append(k.long, b)
}

func (k *key) op(f form, a alternative) { k.byte(byte(f) | byte(a)<<alternativeShift) }

func (k *key) attr(a Attr) {
	kind := byte(a)
	k.byte(kind)
	if numbered(kind) {
		k.number(int(a >> numberShift))
	}
}

// moreFollows is set in each byte of a number but the last one. The other
// bits are the digits, the lowest ones first.
const moreFollows = 0x80

func (k *key) number(n int) {
	for ; n >= moreFollows; n >>= 7 {
		k.byte(byte(n) | moreFollows)
	}
	k.byte(byte(n))
}

func (k *key) text(s string) {
	k.number(len(s))
	if k.room(len(s)) {
		k.used += copy(k.head[k.used:], s)
		return
	}
	k.long = append(k.long, s...)
}

func (k *key) bytes() []byte {
	if k.long != nil {
		return k.long
	}
	return k.head[:k.used]
}
