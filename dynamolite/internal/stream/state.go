package stream

import (
	"time"
)

// State is all of a stream except its records, to be saved with them. The names in JSON may be on
// disk.
type State struct {
	Seed       string        `json:"seed"`
	Created    int64         `json:"created"` // milliseconds since 1970
	Open       int           `json:"open"`    // shards open at a time
	Roll       time.Duration `json:"roll"`    // fixed when the stream is made, because shard ids depend on it
	Last       uint64        `json:"last"`    // the latest position appended
	Number     int64         `json:"number"`  // in the latest shard id
	Generation int64         `json:"generation"`
	Clock      int64         `json:"clock"` // milliseconds since 1970: the latest append, or the closing
	Closed     bool          `json:"closed,omitempty"`
	Shards     []ShardState  `json:"shards"` // by age
}

// ShardState is all of a shard except its records.
type ShardState struct {
	ID       string `json:"id"`
	Parent   string `json:"parent,omitempty"`
	Slot     int    `json:"slot"`          // its index among the open shards, now or earlier
	Start    uint64 `json:"start"`         // the first position it can hold
	End      uint64 `json:"end,omitempty"` // once closed: the last position it can hold
	Closed   bool   `json:"closed,omitempty"`
	ClosedAt int64  `json:"closed_at,omitempty"` // milliseconds since 1970
	Sealed   uint64 `json:"sealed,omitempty"`    // position of the write that closed it
	Trimmed  uint64 `json:"trimmed,omitempty"`   // the latest position that was trimmed
}

// Page is some records of one shard, in order.
type Page[R any] struct {
	Shard   int    // index in State.Shards
	Trimmed uint64 // records up to this position were trimmed since and are missing
	Records []Record[R]
}

// State returns the stream's current state without its records. It costs little, so it can be
// taken while no write is in progress. Later appends are not part of it.
func (s *Stream[R]) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := State{
		Seed: s.seed, Created: s.created, Open: s.options.Shards, Roll: s.options.Roll, Last: s.last,
		Number: s.number, Generation: s.generation, Clock: s.clock, Closed: s.closed,
		Shards: make([]ShardState, len(s.shards)),
	}
	for i, sh := range s.shards {
		st.Shards[i] = sh.saved
	}
	return st
}

// Export calls page with all records that belong to a state of this stream. Appends and reads
// continue meanwhile. Records that they trim are missing, and the pages say so. Export ends with
// the first error of page.
//
// The naive export holds the lock until all records are copied, while every write to the table
// waits. This one takes it for a page. Records are immutable, so what was not trimmed is still as
// it was at the state. Appended ones have later positions, and are left out:
//
//	state at 9      [ 4 5 6 7 8 9 ]
//	page 1          [ 4 5 6 ]
//	trimmed to 7                      appended 10
//	page 2                [ 8 9 ]     Trimmed: 7, so a restored stream drops 4 to 6, too
func (s *Stream[R]) Export(st State, page func(Page[R]) error) error {
	for i := range st.Shards {
		for after, more := uint64(0), true; more; {
			var p Page[R]
			p, more = s.exportPage(&st.Shards[i], after, st.Last)
			p.Shard = i
			if err := page(p); err != nil {
				return err
			}
			if n := len(p.Records); n > 0 {
				after = p.Records[n-1].Position
			}
		}
	}
	return nil
}

// exportLen is how many records are exported under one hold of the lock.
const exportLen = 1000

// exportPage returns the records of a shard after one position and up to another, and whether
// there are more.
func (s *Stream[R]) exportPage(saved *ShardState, after, last uint64) (Page[R], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh, ok := s.shardLocked(saved.ID)
	if !ok {
		return Page[R]{Trimmed: last}, false // all expired
	}
	p := Page[R]{Trimmed: min(sh.saved.Trimmed, last)}
	for i := sh.log.after(after); i < sh.log.n; i++ {
		e := sh.log.at(i)
		switch {
		case e.position > last:
			return p, false
		case len(p.Records) == exportLen:
			return p, true
		}
		p.Records = append(p.Records, e.record())
	}
	return p, false
}

// Restore makes the stream that a state describes. Add its records with [Stream.RestorePage].
// Shards and Roll come from the state, not from the options. For a state that no stream can have
// been in, it returns [ErrBadState].
func Restore[R any](st State, o Options) (*Stream[R], error) {
	o.Shards, o.Roll = st.Open, st.Roll
	s := &Stream[R]{
		seed: st.Seed, created: st.Created, options: o.withDefaults(), restored: st.Last,
		last: st.Last, number: st.Number, generation: st.Generation, clock: st.Clock, closed: st.Closed,
	}
	if s.options.Shards != st.Open || s.options.Roll != st.Roll {
		return nil, ErrBadState
	}
	for i := range st.Shards {
		sh := &shard[R]{saved: st.Shards[i]}
		if sh.saved.Start == 0 || i > 0 && sh.saved.ID <= st.Shards[i-1].ID {
			return nil, ErrBadState
		}
		s.shards = append(s.shards, sh)
		if sh.saved.Closed {
			continue
		}
		if sh.saved.Slot != len(s.open) {
			return nil, ErrBadState
		}
		s.open = append(s.open, sh)
	}
	want := st.Open
	if st.Closed {
		want = 0
	}
	if len(s.open) != want {
		return nil, ErrBadState
	}
	return s, nil
}

// RestorePage adds records to a restored stream before it is used, in the order of their export.
// For a page that does not fit the state, it returns [ErrBadState].
func (s *Stream[R]) RestorePage(p Page[R]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Shard < 0 || p.Shard >= len(s.shards) {
		return ErrBadState
	}
	sh := s.shards[p.Shard]
	for _, r := range p.Records {
		if n := sh.log.n; r.Position < sh.saved.Start || r.Position > s.last || n > 0 && r.Position <= sh.log.at(n-1).position {
			return ErrBadState
		}
		s.bytes += cost(r.Size)
		sh.log.push(entry[R]{position: r.Position, at: r.At.UnixMilli(), size: r.Size, value: r.Value})
	}
	for sh.log.n > 0 && sh.log.at(0).position <= p.Trimmed { // trimmed after an earlier page
		s.dropLocked(sh)
	}
	sh.saved.Trimmed = max(sh.saved.Trimmed, p.Trimmed)
	return nil
}
