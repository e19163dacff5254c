package stream

import (
	"slices"
	"strings"
	"time"
)

// maxPage limits the total size of the records of one page, as AWS does.
const maxPage = 1 << 20

// From says where in a shard to start reading.
type From int

const (
	// TrimHorizon is the oldest remaining record.
	TrimHorizon From = iota
	// Latest is after all records that are visible now.
	Latest
	// At is a position, its record included.
	At
	// After is a position, its record not included.
	After
	// Since is an instant: the first record that is not older. If there is none, it is the same
	// as Latest.
	Since
)

// Start is a place in a shard.
type Start struct {
	From     From
	Position uint64    // of At and After
	Time     time.Time // of Since
}

// Shards lists the shards by age, as seen by a reader that sees nothing after durable.
func (s *Stream[R]) Shards(durable uint64, now time.Time) []Shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trimLocked(now.UnixMilli())
	list := make([]Shard, 0, len(s.shards))
	for _, sh := range s.shards {
		if sh.hiddenFrom(durable) {
			continue
		}
		d := Shard{ID: sh.saved.ID, Parent: sh.saved.Parent, Start: sh.saved.Start}
		if sh.closedTo(durable) {
			d.End = sh.saved.End
		}
		list = append(list, d)
	}
	return list
}

// Find makes an iterator that starts reading a shard at a place. Errors: [ErrNoShard];
// [ErrOutsideShard] for a position that the shard cannot hold; [ErrTrimmed] for a position whose
// record, or a later one, is gone; [ErrFuture]. A position above all written ones is valid.
//
// An iterator is a position after which to read, whatever it was made from. So it stays right when
// records are trimmed or appended: an index in the log would not.
func (s *Stream[R]) Find(stream, shard string, from Start, durable uint64, now time.Time) (Iterator, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trimLocked(now.UnixMilli())
	it := Iterator{Stream: stream, Shard: shard, Issued: now}
	sh, ok := s.shardLocked(shard)
	if !ok || sh.hiddenFrom(durable) {
		return it, ErrNoShard
	}
	switch from.From {
	case TrimHorizon:
		it.After = sh.floor()
		return it, nil
	case Latest:
		// Not after the latest record, if that is still to become durable: a crash may undo it, and
		// others then take its position.
		it.After = max(sh.floor(), min(s.last, durable))
		return it, nil
	case Since:
		if from.Time.After(now) {
			return it, ErrFuture
		}
		it.After = min(s.last, durable)
		if i := sh.log.since(from.Time.UnixMilli()); i < sh.log.n {
			it.After = min(it.After, sh.log.at(i).position-1)
		}
		it.After = max(it.After, sh.floor())
		return it, nil
	case At, After:
	}
	if from.Position < sh.saved.Start || sh.closedTo(durable) && from.Position > sh.saved.End {
		return it, ErrOutsideShard
	}
	it.After = from.Position
	if from.From == At {
		it.After--
	}
	if it.After < sh.saved.Trimmed {
		return it, ErrTrimmed
	}
	return it, nil
}

// Read returns a page of at most limit records and the iterator to continue with. The page has at
// most 1 MiB of records, but at least one record if there is one. More is false when the shard is
// closed and has been read to its end: then its child comes next. Errors: [ErrExpiredIterator];
// [ErrTrimmed], also if the whole shard is gone.
//
// next moves past the records returned and no further. Records that are not yet durable keep their
// place for the next call, and so does a record that did not fit the page. more stays true while
// such records exist, even if the shard is closed.
func (s *Stream[R]) Read(it Iterator, limit int, durable uint64, now time.Time) (records []Record[R], next Iterator, more bool, err error) {
	if it.expired(now) {
		return nil, it, false, ErrExpiredIterator
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trimLocked(now.UnixMilli())
	sh, ok := s.shardLocked(it.Shard)
	if !ok || it.After < sh.saved.Trimmed {
		return nil, it, false, ErrTrimmed
	}
	next = it
	next.Issued = now
	i, visible := sh.log.after(it.After), sh.log.after(durable)
	if i < visible {
		records = make([]Record[R], 0, min(limit, visible-i))
	}
	bytes := 0
	for ; i < visible && len(records) < limit; i++ {
		e := sh.log.at(i)
		bytes += e.size
		if bytes > maxPage && len(records) > 0 {
			break
		}
		records = append(records, e.record())
		next.After = e.position
	}
	return records, next, i < sh.log.n || !sh.closedTo(durable), nil
}

// shardLocked finds a shard by its id: shards are in the order of their ids.
func (s *Stream[R]) shardLocked(id string) (*shard[R], bool) {
	i, ok := slices.BinarySearchFunc(s.shards, id, func(sh *shard[R], id string) int { return strings.Compare(sh.saved.ID, id) })
	if !ok {
		return nil, false
	}
	return s.shards[i], true
}

func (e *entry[R]) record() Record[R] {
	return Record[R]{Position: e.position, At: time.UnixMilli(e.at).UTC(), Size: e.size, Value: e.value}
}
