package memory

import (
	"crypto/rand"
	"encoding/base32"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// positions is how many writes of a process to one item may have a sequence at a time: as many as its
// lanes have places for takes, and for what is returned. Further writes are sent once.
const positions = 4

// mostLost is of how many lost writes to an item a process finds out what became. What others took
// stays taken.
const mostLost = 64

// Sequences are the numbers of the writes of one process.
type Sequences struct {
	Process string // begins all names
	names   [positions]string
	last    atomic.Int64
}

// NewSequences returns the numbers of a process that begins. No other one has its positions.
func NewSequences() *Sequences {
	id := make([]byte, 5) // 8 characters
	_, _ = rand.Read(id)  // it never fails
	s := &Sequences{Process: strings.ToLower(base32.StdEncoding.EncodeToString(id))}
	for i := range s.names {
		s.names[i] = s.Process + strconv.Itoa(i)
	}
	return s
}

// next is a number above all before it. It is the time, which tells when a position was last used.
func (s *Sequences) next(now int64) int64 {
	for {
		last := s.last.Load()
		n := max(last+1, now)
		if s.last.CompareAndSwap(last, n) {
			return n
		}
	}
}

// A lostWrite is a write of which nobody knows what became.
type lostWrite struct {
	store.Sequence

	made int64              // when its item was
	back func(*store.Image) // returns what it took, by the image that shows it
}

// BeginSequence gives a write on an image a position that no other write uses, until
// [Account.EndSequence]. It gives none if all are in use, or if the item has no room for it.
func (a *Account) BeginSequence(s *Sequences, seen *store.Image, now int64) store.Sequence {
	a.mu.Lock()
	defer a.mu.Unlock()
	sh := a.shardLocked(seen.Shard)
	k, ok := sh.freePosition()
	if !ok {
		return store.Sequence{}
	}
	n := s.next(now)
	below := n
	if sh.lost != nil {
		for _, l := range *sh.lost {
			if l.Position == s.names[k] && l.made == seen.CreatedAt {
				below = min(below, l.Number)
			}
		}
	}
	next := plan.SequenceAt(seen, s.names[k], n, below)
	if !next.IsNone() {
		sh.busy |= 1 << k
	}
	return next
}

// BeginFirst is [Account.BeginSequence] for the write that makes an item: it gives the item its first position.
func (a *Account) BeginFirst(s *Sequences, shard int, now int64) store.Sequence {
	a.mu.Lock()
	defer a.mu.Unlock()
	sh := a.shardLocked(shard)
	k, ok := sh.freePosition()
	if !ok {
		return store.Sequence{}
	}
	sh.busy |= 1 << k
	n := s.next(now)
	return store.Sequence{Position: s.names[k], Number: n, Below: n}
}

// freePosition is a position that no write uses, if there is one.
func (s *shard) freePosition() (k int, ok bool) {
	k = bits.TrailingZeros8(^s.busy)
	return k, k < positions
}

// EndSequence ends the use of a position. isApplied says that its write was applied, so that those
// lost before it were not, and never will be. If nobody knows what became of the write, back, if
// not nil, is to return what it took. EndSequence reports whether it will be called then.
func (a *Account) EndSequence(s *Sequences, q *store.Sequence, seen *store.Image, isApplied bool, back func(*store.Image)) (returns bool) {
	if q.IsNone() {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	sh := a.shardLocked(seen.Shard)
	sh.busy &^= 1 << slices.Index(s.names[:], q.Position)
	switch {
	case isApplied && sh.lost != nil:
		*sh.lost = slices.DeleteFunc(*sh.lost, func(l lostWrite) bool { return l.Position == q.Position && l.Number < q.Number })
	case back == nil:
	case sh.lost == nil:
		sh.lost = &[]lostWrite{{*q, seen.CreatedAt, back}}
		return true
	case len(*sh.lost) < mostLost:
		*sh.lost = append(*sh.lost, lostWrite{*q, seen.CreatedAt, back})
		return true
	}
	return false
}

// TakeLanded returns what is to be done because an image shows that a lost write was applied. It
// forgets that write, and those that were not applied because of it, or whose item is gone.
func (a *Account) TakeLanded(img *store.Image) (backs []func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sh := a.knownLocked(img.Shard)
	if sh == nil || sh.lost == nil {
		return nil
	}
	*sh.lost = slices.DeleteFunc(*sh.lost, func(l lostWrite) bool {
		last := img.NumberAt(l.Position)
		switch {
		case img.CreatedAt != l.made:
			return img.CreatedAt > l.made
		case last == l.Number:
			backs = append(backs, func() { l.back(img) })
		}
		return last >= l.Below
	})
	return backs
}
