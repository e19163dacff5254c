// Package stream holds the records of one table's change stream: in memory, for a day, readable
// by position. It does not know items and has no clock: the caller supplies the record type and
// every instant.
//
// A stream has a fixed number of open shards. The hash of a record chooses its shard, so records
// with equal hashes are read in the order of their writes. Every few hours the open shards are
// closed and a child replaces each of them. A reader at the end of a closed shard continues with
// the child, so it loses nothing and keeps the order.
//
// The caller supplies the positions. A position is the place of a write in the order of
// all writes of the database, which is the order of its journal. These always hold:
//   - A stream, with its shard ids and their ranges, depends only on its creation and its
//     appends. The same appends after a restart therefore make the same stream, and a reader
//     continues from its place. Shards are therefore rolled by an append, never by a reader or a
//     timer: the shards of an idle table stay open.
//   - A reader passes a durable position, and sees nothing after it: no records, no closing of a
//     shard, no child. A crash therefore cannot undo anything that a reader has seen.
//   - A shard's records are ordered by position, and by time: if the clock goes back, the
//     stream's time stands still.
package stream

import (
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Options configures a [Stream]. The zero value works.
type Options struct {
	// Shards is how many shards are open at a time. Default: 4.
	Shards int
	// Roll is how long shards stay open before children replace them. Default: 4 h, about as on
	// AWS.
	Roll time.Duration
	// Retention is how long a record can be read, and how long a closed shard is listed. Default:
	// 24 h, as on AWS.
	Retention time.Duration
	// MaxBytes limits the total size of the kept records, plus 128 bytes for each. Beyond it the
	// oldest records are dropped early; the latest record is always kept. Default: 256 MiB.
	MaxBytes int64
}

func (o Options) withDefaults() Options {
	if o.Shards <= 0 {
		o.Shards = 4
	}
	if o.Roll <= 0 {
		o.Roll = 4 * time.Hour
	}
	o.Roll = max(o.Roll, time.Millisecond)
	if o.Retention <= 0 {
		o.Retention = 24 * time.Hour
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 256 << 20
	}
	return o
}

// Record is one change.
type Record[R any] struct {
	// Position is its place in the order of all writes, from 1.
	Position uint64
	// At is the time of the write, to the millisecond.
	At time.Time
	// Size is the number of bytes that it counts for.
	Size int
	// Value is the change itself. The stream keeps it without a copy; it must never change.
	Value R
}

// Shard describes a shard.
type Shard struct {
	// ID identifies it. Ids sort by age.
	ID string
	// Parent is the id of the shard that it replaced, which may no longer be listed; "" if it is
	// one of the first.
	Parent string
	// Start is the first position it can hold.
	Start uint64
	// End is the last position it can hold; 0 while it is open.
	End uint64
}

// shard is a shard and its records. log has the records after saved.Trimmed, in order of position.
// A closed shard gets no more of them, and disappears once it has been closed for the retention.
type shard[R any] struct {
	saved ShardState
	log   log[R]
}

// closedTo reports whether the shard is closed for a reader that sees nothing after durable.
// Without this, a crash could undo the write that closed the shard, after a reader had gone on to
// the child. After the restart the shard is open again, and the reader would miss its next records.
func (sh *shard[R]) closedTo(durable uint64) bool {
	return sh.saved.Closed && sh.saved.Sealed <= durable
}

// hiddenFrom reports whether the shard is not yet visible to such a reader. The first shards have
// no parent and are visible at once. A child begins with the write that opened it, which a crash
// can undo.
func (sh *shard[R]) hiddenFrom(durable uint64) bool {
	return sh.saved.Parent != "" && sh.saved.Start > durable
}

// floor returns the position before the first one that can still be read.
func (sh *shard[R]) floor() uint64 { return max(sh.saved.Trimmed, sh.saved.Start-1) }

// Stream is one table's stream. Make one with [New] or [Restore]. Its methods are safe for
// concurrent use and hold its lock only while they copy a page. The caller makes sure that
// appends come in the order of their positions.
//
// The naive design is one list of all records with shards as a filter over it. A reader of one
// shard would then read all, and trimming would be simple. Here each shard has its own log, and
// trimming by time goes through all of them; nextTrim makes that rare.
type Stream[R any] struct {
	seed     string
	created  int64 // milliseconds since 1970
	options  Options
	restored uint64 // positions up to here were in the saved state

	mu         sync.Mutex
	shards     []*shard[R] // by age: those of one generation together, the open ones last
	open       []*shard[R] // by hash modulo their number; nil once the stream is closed
	last       uint64      // the latest position appended
	number     int64       // in the latest shard id
	generation int64       // of the open shards: how often Roll has passed since creation
	clock      int64       // the latest instant of an append or of the closing
	closed     bool
	bytes      int64 // sum of the sizes of all records
	nextTrim   int64 // nothing can expire before
}

// New makes an empty stream. The seed is part of shard ids: streams with different seeds have
// different shard ids.
func New[R any](seed string, created time.Time, o Options) *Stream[R] {
	s := &Stream[R]{seed: seed, created: created.UnixMilli(), options: o.withDefaults()}
	s.clock = s.created
	s.openLocked(nil, 1)
	return s
}

// openLocked opens shards that replace their parents, if there are any. The number in an id comes
// from the creation and the generation, not from a clock. After a replay of the log, the same
// shards thus have the same ids. It only grows, so ids sort by age.
func (s *Stream[R]) openLocked(parents []*shard[R], start uint64) {
	s.number = max(s.number, s.created+s.generation*s.options.Roll.Milliseconds()-1)
	s.open = make([]*shard[R], s.options.Shards)
	for i := range s.open {
		s.number++
		sh := &shard[R]{saved: ShardState{ID: shardID(s.seed, s.number), Slot: i, Start: start}}
		if parents != nil {
			sh.saved.Parent = parents[i].saved.ID
		}
		s.open[i] = sh
	}
	s.shards = append(s.shards, s.open...)
}

// shardID has the form of AWS's ids: there, too, the number is about milliseconds.
func shardID(seed string, number int64) string {
	sum := crc32.ChecksumIEEE(strconv.AppendInt([]byte(seed), number, 10))
	return fmt.Sprintf("shardId-%020d-%08x", number, sum)
}

// Append adds a record to the shard that its hash chooses. Positions must increase from append to
// append, except that a restored stream ignores positions that it already has. A journal may
// therefore be replayed from before the saved state. Append panics if positions do not increase,
// and on a closed stream: either would lose a record unnoticed. It returns how many records it
// dropped before their time, for want of room.
//
// The order of its steps:
//   - The stream's time moves on, and never back. It decides whether the shards are due to be
//     rolled.
//   - Rolling comes before the record, which is the first one of a new shard. closeLocked must
//     still see the last position of the old ones.
//   - Expired records go before the new one comes, so that they do not count for MaxBytes.
//   - For MaxBytes, the oldest go last. The new record is counted then, and it is never the one
//     that goes.
func (s *Stream[R]) Append(hash uint32, r Record[R]) (dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Position <= s.restored {
		return 0
	}
	if r.Position <= s.last || s.closed {
		panic(fmt.Sprintf("stream: cannot append position %d after %d (closed: %v)", r.Position, s.last, s.closed))
	}
	s.clock = max(s.clock, r.At.UnixMilli())
	if g := (s.clock - s.created) / s.options.Roll.Milliseconds(); g > s.generation {
		s.generation = g
		s.closeLocked(r.Position)
		s.openLocked(s.open, r.Position)
	}
	s.trimLocked(s.clock)
	s.nextTrim = min(s.nextTrim, s.clock+s.options.Retention.Milliseconds())
	s.last = r.Position
	s.bytes += cost(r.Size)
	sh := s.open[hash%uint32(len(s.open))]
	sh.log.push(entry[R]{position: r.Position, at: s.clock, size: r.Size, value: r.Value})
	for s.bytes > s.options.MaxBytes && s.trimOldestLocked() {
		dropped++
	}
	return dropped
}

// Close closes the stream: no more records are appended, and existing ones stay readable until
// they expire. The position is that of the write that closed it, 0 if it has none. A reader that
// does not see that far finds the stream open. Closing twice is allowed.
func (s *Stream[R]) Close(position uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.clock = max(s.clock, now.UnixMilli())
	s.closeLocked(position)
	s.open, s.closed = nil, true
	s.nextTrim = min(s.nextTrim, s.clock+s.options.Retention.Milliseconds())
}

// Closed reports whether the stream is closed.
func (s *Stream[R]) Closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Expired reports whether the stream was closed so long ago that all its records are gone.
func (s *Stream[R]) Expired(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && s.clock <= s.horizon(now.UnixMilli())
}

// closeLocked closes the open shards on behalf of the write at a position. A shard that has had no
// record still ends where it starts, so that its range is not empty.
func (s *Stream[R]) closeLocked(position uint64) {
	for _, sh := range s.open {
		sh.saved.Closed, sh.saved.ClosedAt, sh.saved.Sealed = true, s.clock, position
		sh.saved.End = max(sh.saved.Start, s.last)
	}
}

// overhead is about the memory that a record takes beyond its size.
const overhead = 128

func cost(size int) int64 { return int64(size) + overhead }

// horizon returns an instant: records as old as it, or older, have expired.
func (s *Stream[R]) horizon(now int64) int64 { return now - s.options.Retention.Milliseconds() }

// trimLocked removes expired records and shards. It computes the next instant at which anything can
// expire. Until then it returns at once, so that readers and appends can call it each time.
func (s *Stream[R]) trimLocked(now int64) {
	if now < s.nextTrim {
		return
	}
	horizon := s.horizon(now)
	s.nextTrim = math.MaxInt64
	s.shards = slices.DeleteFunc(s.shards, func(sh *shard[R]) bool {
		for sh.log.n > 0 && sh.log.at(0).at <= horizon {
			s.dropLocked(sh)
		}
		var next int64
		switch {
		case sh.saved.Closed && sh.saved.ClosedAt <= horizon:
			return true
		case sh.log.n > 0:
			next = sh.log.at(0).at
		case sh.saved.Closed:
			next = sh.saved.ClosedAt
		default:
			return false
		}
		s.nextTrim = min(s.nextTrim, next+s.options.Retention.Milliseconds())
		return false
	})
}

// trimOldestLocked removes the oldest record, unless it is also the latest. It compares the first
// records of all shards, of which there are a few dozen.
func (s *Stream[R]) trimOldestLocked() bool {
	var oldest *shard[R]
	for _, sh := range s.shards {
		if sh.log.n > 0 && (oldest == nil || sh.log.at(0).position < oldest.log.at(0).position) {
			oldest = sh
		}
	}
	if oldest == nil || oldest.log.at(0).position == s.last {
		return false
	}
	s.dropLocked(oldest)
	return true
}

// dropLocked removes the first record of a shard and remembers its position. A reader that stands
// before it has missed something, and must be told.
func (s *Stream[R]) dropLocked(sh *shard[R]) {
	e := sh.log.pop()
	s.bytes -= cost(e.size)
	sh.saved.Trimmed = e.position
}
