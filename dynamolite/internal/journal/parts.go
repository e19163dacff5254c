package journal

import (
	"encoding/binary"
	"errors"
)

// PartBytes is how many bytes of items one entry of a checkpoint has at least, unless it is the last.
const PartBytes = 64 << 10

// ErrEntry is for an entry that this engine has not written, although its checksum is right.
var ErrEntry = errors.New("the entry cannot be read: a newer version or another program wrote it")

// AppendText appends a text and, before it, its length.
func AppendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// Reader reads from the front of the remaining data. After data that it cannot read, it is bad
// and reads zeros.
//
// It is for the entries of the journal's owner, who looks at Bad once for several reads. A string
// from Rest shares its memory.
type Reader struct {
	Rest string
	Bad  bool
}

// Next reads so many bytes. On failure it returns two zero bytes, so that a caller may look at up
// to two before it checks Bad.
func (r *Reader) Next(n int) string {
	if n < 0 || n > len(r.Rest) {
		r.Rest, r.Bad = "", true
		return string(make([]byte, 2))
	}
	s := r.Rest[:n]
	r.Rest = r.Rest[n:]
	return s
}

// Text reads a text that AppendText has written.
func (r *Reader) Text() string { return r.Next(r.Number()) }

// Number reads a number that is not negative and not so large that it cannot be one of ours.
func (r *Reader) Number() int {
	u := r.Unsigned()
	if u > 1<<40 {
		r.Bad = true
		return 0
	}
	return int(u)
}

// Signed reads a varint.
func (r *Reader) Signed() int64 {
	u := r.Unsigned()
	return int64(u>>1) ^ -int64(u&1) //nolint:gosec // zigzag
}

// Unsigned reads a uvarint.
func (r *Reader) Unsigned() uint64 {
	u, n := binary.Uvarint([]byte(r.Rest[:min(len(r.Rest), binary.MaxVarintLen64)]))
	if n <= 0 {
		r.Rest, r.Bad = "", true
		return 0
	}
	r.Rest = r.Rest[n:]
	return u
}
