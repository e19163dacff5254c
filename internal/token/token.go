// Package token writes leases down, so that another process can settle them (ADR 058): it has the
// binary form of a lease, and signs it. It has no clock and no I/O.
//
//	version  1 byte
//	key id   4 bytes
//	body     namespace, time, nonce, deadline, flags, entity, what was taken of each resource; from
//	         version 2 on what it owes, and in version 3 which slots it holds
//	tag      16 bytes: HMAC-SHA256 of all before it, cut in half
//
// Numbers are varints, and strings are preceded by their length. The whole is base64url without
// padding. The same lease makes the same token.
package token

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// Sizes, in bytes.
const (
	MinKey   = 32 // of a key
	MaxToken = 8 << 10
	version  = 3 // of leases that hold slots; 2 of those that owe something, and 1 of all others

	versionPlain, versionOwing = 1, 2

	idSize   = 4
	tagSize  = 16
	headSize = 1 + idSize
)

// A Nonce tells leases apart.
type Nonce [8]byte

// A Lease is what is written down of a lease.
type Lease struct {
	Namespace string // the id
	Entity    string
	Made      int64 // when the lease was first written down, in seconds since the Unix epoch
	Nonce     Nonce
	Within    int64 // from Made to the deadline, in seconds
	// Degraded says that the lease was granted without the store, so that there is nothing to
	// settle.
	Degraded  bool
	Resources []Resource
}

// A Resource is what a lease took of one resource.
type Resource struct {
	Name  string
	Sides []Side
	// Owes is what the lease takes besides at its settlement, unless that says otherwise: what a
	// clamp cut off, by limit. Until is 0.
	Owes []store.Amount
	// Slots are what the lease holds of limits of slots, of the entity and of a parent.
	Slots []Slots
}

// Slots are what a lease holds of a limit of slots. The entry that holds them has the name [Lease.Entry].
type Slots struct {
	Entity, Limit string
	Held          int64
}

// A Side is what a lease took of one bucket of the resource: of the entity's own, or of a parent's.
type Side struct {
	Entity string
	Held   []Held
}

// A Held is what was taken of one shard. Each amount has the end of the period in which it was
// taken, or is of [store.NoBalance].
type Held struct {
	Shard   int
	Amounts []store.Amount // by limit name
}

// MaxHeld is the most shards of which a lease that is written down has taken, of all buckets
// together.
const MaxHeld = 48

// CountHeld counts the shards of which a lease has taken.
func (l *Lease) CountHeld() (n int) {
	for _, r := range l.Resources {
		for _, s := range r.Sides {
			n += len(s.Held)
		}
	}
	return n
}

// ID names the lease among all leases of its namespace, in letters, digits, "-" and "_".
func (l *Lease) ID() string {
	made := binary.BigEndian.AppendUint32(nil, uint32(l.Made)) //nolint:gosec // until 2106
	return base64.RawURLEncoding.EncodeToString(append(made, l.Nonce[:]...))
}

// Entry names the entry of the lease's slots, in letters and digits: no process has such a name.
func (l *Lease) Entry() string {
	return store.LeasePrefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(l.Nonce[:]))
}

// Why a token is not accepted.
var (
	ErrMalformed = errors.New("it is no token, or was changed or cut")
	ErrVersion   = errors.New("a newer version of this library has made it")
	ErrKey       = errors.New("it is signed with another key")
)

// Keys sign tokens and check them. The first one signs. It is safe for concurrent use.
type Keys struct{ keys []key }

type key struct {
	id     [idSize]byte
	secret []byte
}

// NewKeys makes keys of secrets. Each has at least [MinKey] bytes, and none is there twice.
func NewKeys(secrets [][]byte) (*Keys, error) {
	k := &Keys{}
	for i, secret := range secrets {
		if len(secret) < MinKey {
			return nil, &store.ValidationError{
				Field: "TokenKeys", Value: fmt.Sprintf("key %d of %d bytes", i+1, len(secret)), Reason: fmt.Sprintf("give random keys of at least %d bytes", MinKey),
			}
		}
		next := key{secret: bytes.Clone(secret)}
		copy(next.id[:], sum(secret, []byte("zae-limiter lease token key id")))
		if k.find(next.id[:]) != nil {
			return nil, &store.ValidationError{Field: "TokenKeys", Value: fmt.Sprintf("key %d", i+1), Reason: "give each key once"}
		}
		k.keys = append(k.keys, next)
	}
	return k, nil
}

// AreNone reports whether there is no key.
func (k *Keys) AreNone() bool { return len(k.keys) == 0 }

// find returns the key with an id, nil if there is none.
func (k *Keys) find(id []byte) *key {
	for i := range k.keys {
		if bytes.Equal(k.keys[i].id[:], id) {
			return &k.keys[i]
		}
	}
	return nil
}

// Sign writes a lease down. There must be a key.
func (k *Keys) Sign(l *Lease) string {
	by := &k.keys[0]
	b := append([]byte{l.version()}, by.id[:]...)
	b = l.append(b)
	return base64.RawURLEncoding.EncodeToString(append(b, sum(by.secret, b)[:tagSize]...))
}

// Open reads a lease that was written down. It fails with [ErrMalformed], [ErrVersion] or [ErrKey].
func (k *Keys) Open(token string) (*Lease, error) {
	if len(token) > MaxToken {
		return nil, ErrMalformed
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	switch {
	case err != nil || len(b) < headSize+tagSize:
		return nil, ErrMalformed
	case b[0] > version:
		return nil, ErrVersion
	case b[0] == 0:
		return nil, ErrMalformed
	}
	signed, tag := b[:len(b)-tagSize], b[len(b)-tagSize:]
	by := k.find(b[1:headSize])
	if by == nil {
		return nil, ErrKey
	}
	if !hmac.Equal(sum(by.secret, signed)[:tagSize], tag) {
		return nil, ErrMalformed
	}
	return parse(signed[headSize:], b[0])
}

// version is the least version that has the lease's form.
func (l *Lease) version() byte {
	of := byte(versionPlain)
	for i := range l.Resources {
		switch r := &l.Resources[i]; {
		case len(r.Slots) > 0:
			return version
		case len(r.Owes) > 0:
			of = versionOwing
		}
	}
	return of
}

func sum(secret, b []byte) []byte {
	h := hmac.New(sha256.New, secret)
	_, _ = h.Write(b) // it never fails
	return h.Sum(nil)
}
