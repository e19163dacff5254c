package value

import (
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// ErrEncoding is returned for data that [Encode] has not made.
var ErrEncoding = errors.New("value: damaged encoding of an item")

// Decode returns the item that was encoded. Its strings share memory with data; nothing writable
// does. Data that [Encode] has not made is a broken invariant: check data from elsewhere with
// [DecodeItem].
//
// Sharing is safe because strings cannot be changed. Binaries are copied: their bytes could be. The
// whole encoding stays in memory as long as one string of the item does.
func Decode(data string) Item {
	item, err := DecodeItem(data)
	if err != nil {
		panic(err)
	}
	return item
}

// DecodeItem is [Decode] for data of unknown origin. It fails with [ErrEncoding]. Its use of
// memory is at most a multiple of the data's size.
func DecodeItem(data string) (Item, error) {
	d := decoder{rest: data}
	strings, numbers, ok := d.census()
	if !ok {
		return nil, ErrEncoding
	}
	d.slab = Slab{s: make([]types.AttributeValueMemberS, strings), n: make([]types.AttributeValueMemberN, numbers)}
	item := d.item(0)
	if d.bad || d.rest != "" {
		return nil, ErrEncoding
	}
	return item, nil
}

// census scans all data before decoding, so that a false count allocates nothing. It also counts
// the attributes that are strings and numbers, which most are, so that the slabs fit exactly.
//
// Only top-level attributes are counted. Nested values take blocks as they come, since their number
// is not known without a deeper scan. The scan compares no names and allocates nothing, so it costs
// a fraction of the decoding.
func (d *decoder) census() (strings, numbers int, ok bool) {
	look := decoder{rest: d.rest}
	for range look.number() {
		look.text()
		if look.rest == "" {
			return 0, 0, false
		}
		switch look.rest[0] {
		case tagS:
			strings++
		case tagN:
			numbers++
		}
		look.skip(0)
	}
	return strings, numbers, !look.bad && look.rest == ""
}

// skip skips a value. Each length lets it jump over the content, so it touches a few bytes of each
// value. Damage makes it fail at the latest after [MaxDepth] levels.
func (d *decoder) skip(depth int) {
	switch d.tag(depth) {
	case tagS, tagN, tagB:
		d.text()
	case tagSS, tagNS, tagBS:
		for range d.number() {
			d.text()
		}
	case tagL:
		for range d.number() {
			d.skip(depth + 1)
		}
	case tagM:
		for range d.number() {
			d.text()
			d.skip(depth + 1)
		}
	case tagFalse, tagTrue, tagNull:
	default:
		d.fail()
	}
}

// decoder reads from the front of the remaining data. After data that it cannot read, it is bad
// and reads only zeros.
//
// So the functions below need no error results. A loop over a false count goes on over zeros, and
// ends: number bounds every count. Whoever asks for a result looks at bad at the end, and drops
// what was made.
type decoder struct {
	rest string
	bad  bool
	slab Slab
}

// fail drops the rest, so that whatever reads next finds no data and fails as well.
func (d *decoder) fail() {
	d.bad, d.rest = true, ""
}

// number reads a length or a count. Each thing counted takes at least one byte.
//
// A count above the bytes that remain is therefore damage. Without this check, a few damaged bytes
// could ask for gigabytes of memory. Five bytes hold 35 bits, more than any item needs. A last byte
// of zero is refused, so that a number has one encoding.
func (d *decoder) number() int {
	n, shift := 0, 0
	for i := 0; i < len(d.rest) && i < 5; i++ {
		b := d.rest[i]
		n |= int(b&0x7F) << shift
		if b < 0x80 {
			d.rest = d.rest[i+1:]
			if n > len(d.rest) || i > 0 && b == 0 {
				break
			}
			return n
		}
		shift += 7
	}
	d.fail()
	return 0
}

// text returns a part of the data, without a copy.
func (d *decoder) text() string {
	n := d.number()
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

// item reads a map inside depth lists and maps; the item itself is at depth 0.
func (d *decoder) item(depth int) Item { return mapOf(d, depth, d.value) }

// mapOf reads names and values. Both decoders use it, for different types of values. A name that
// appears twice makes the map smaller than its count, which is damage.
func mapOf[V any](d *decoder, depth int, value func(depth, more int) V) map[string]V {
	n := d.number()
	m := make(map[string]V, n)
	for i := range n {
		name := d.text()
		m[name] = value(depth, n-i)
	}
	if len(m) != n {
		d.fail()
	}
	return m
}

// tag reads the type of the next value, 0 if there is none or it lies too deep. 0 is no tag, so
// each caller treats it like an unknown one, as damage.
func (d *decoder) tag(depth int) (tag byte) {
	if d.rest == "" || depth > MaxDepth {
		return 0
	}
	tag, d.rest = d.rest[0], d.rest[1:]
	return tag
}

// value reads one of about so many values. more sizes the blocks of the slab; a wrong guess costs
// memory only.
func (d *decoder) value(depth, more int) AV {
	switch tag := d.tag(depth); tag {
	case tagS:
		p := take(&d.slab.s, more)
		p.Value = d.text()
		return p
	case tagN:
		return d.slab.Number(d.text(), more)
	case tagB:
		p := take(&d.slab.b, more)
		p.Value = []byte(d.text())
		return p
	case tagFalse, tagTrue:
		p := take(&d.slab.bo, more)
		p.Value = tag == tagTrue
		return p
	case tagNull:
		p := take(&d.slab.nu, more)
		p.Value = true
		return p
	case tagL:
		n := d.number()
		p := take(&d.slab.l, 1)
		p.Value = make([]AV, n)
		for i := range p.Value {
			p.Value[i] = d.value(depth+1, n-i)
		}
		return p
	case tagM:
		p := take(&d.slab.m, 1)
		p.Value = d.item(depth + 1)
		return p
	default:
		return d.set(tag)
	}
}

func (d *decoder) set(tag byte) AV {
	switch tag {
	case tagSS:
		p := take(&d.slab.ss, 1)
		p.Value = d.texts()
		return p
	case tagNS:
		p := take(&d.slab.ns, 1)
		p.Value = d.texts()
		return p
	case tagBS:
		p := take(&d.slab.bs, 1)
		p.Value = d.binaries()
		return p
	default:
		d.fail()
		return nil
	}
}

func (d *decoder) texts() []string {
	elements := make([]string, d.number())
	for i := range elements {
		elements[i] = d.text()
	}
	return elements
}

// binaries copies each member: the data is a string, and the members are the caller's to write to.
func (d *decoder) binaries() [][]byte {
	elements := make([][]byte, d.number())
	for i := range elements {
		elements[i] = []byte(d.text())
	}
	return elements
}
