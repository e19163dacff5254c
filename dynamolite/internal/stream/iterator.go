package stream

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"time"
)

// IteratorLifetime is how long an iterator may be used after its issue.
const IteratorLifetime = 15 * time.Minute

// Iterator is a place in a shard from which a reader continues. It is a self-contained value and
// survives restarts.
type Iterator struct {
	// Stream is the owner's name of the stream. It contains no '|'.
	Stream string
	// Shard is a shard's id.
	Shard string
	// After is the position after which to read.
	After uint64
	// Issued is the time of its creation, to the millisecond.
	Issued time.Time
}

// expired reports whether the iterator is too old to be used.
func (it Iterator) expired(now time.Time) bool { return now.Sub(it.Issued) > IteratorLifetime }

// version separates the name of the stream from the rest of a token, and identifies the format of
// the rest.
const version = "|1|"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// String returns the iterator as a token, opaque to its holder. A checksum detects a token that
// is cut or mistyped. It is not a signature, because a client that may read the stream may read
// all of it.
func (it Iterator) String() string {
	raw := binary.AppendUvarint(make([]byte, 0, 64), it.After)
	raw = binary.AppendVarint(raw, it.Issued.UnixMilli())
	raw = append(raw, it.Shard...)
	sum := crc32.Update(crc32.Checksum([]byte(it.Stream), castagnoli), castagnoli, raw)
	raw = binary.BigEndian.AppendUint32(raw, sum)
	return it.Stream + version + base64.RawURLEncoding.EncodeToString(raw)
}

// ParseIterator parses a token. For a token that [Iterator.String] has not made, it returns
// [ErrBadIterator].
func ParseIterator(token string) (Iterator, error) {
	at := strings.LastIndex(token, version)
	if at < 0 {
		return Iterator{}, ErrBadIterator
	}
	raw, err := base64.RawURLEncoding.DecodeString(token[at+len(version):])
	if err != nil || len(raw) < crc32.Size {
		return Iterator{}, ErrBadIterator
	}
	raw = raw[:len(raw)-crc32.Size]
	after, n := binary.Uvarint(raw)
	if n <= 0 {
		return Iterator{}, ErrBadIterator
	}
	issued, m := binary.Varint(raw[n:])
	if m <= 0 {
		return Iterator{}, ErrBadIterator
	}
	it := Iterator{Stream: token[:at], Shard: string(raw[n+m:]), After: after, Issued: time.UnixMilli(issued)}
	if it.String() != token { // checks the checksum, and rejects every other spelling of the same iterator
		return Iterator{}, ErrBadIterator
	}
	return it, nil
}
