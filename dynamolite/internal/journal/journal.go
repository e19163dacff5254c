package journal

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
)

// Position is the place of an entry in the order of all entries ever appended to a journal, from 1. It survives restarts.
type Position uint64

// Entry is an entry as [Open] reads it.
type Entry struct {
	// Position of a logged entry. An entry of a checkpoint has the checkpoint's position: the
	// last entry that it stands for.
	Position   Position
	Checkpoint bool
	Data       []byte // valid during the call only
}

// Options of [Open]. The zero value works.
type Options struct {
	// SegmentBytes is the size at which a new segment begins; a segment exceeds it by at most one
	// group of entries. Default 64 MiB.
	SegmentBytes int64

	// Logger receives what recovery cut off and which files could not be removed. Default:
	// discard.
	Logger *slog.Logger

	files filesystem // default osFiles
}

const (
	defaultSegmentBytes = 64 << 20

	// maxBuffered is how many bytes may wait to be written before Append waits too.
	maxBuffered = 64 << 20

	// maxKept is the largest buffer that is kept for the next group.
	maxKept = 4 << 20
)

func (o Options) withDefaults() (Options, error) {
	if o.SegmentBytes < 0 {
		return o, fmt.Errorf("SegmentBytes is %d but must not be negative; 0 means %d", o.SegmentBytes, int64(defaultSegmentBytes))
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.files == nil {
		o.files = osFiles{}
	}
	return o, nil
}

// Journal is an open log. Its methods may be called concurrently.
//
// An entry moves through these places. A crash loses it in all but the last:
//
//	Append            the writer takes          commit                 Wait returns
//	pending.buf ────▶ writing.buf ────────────▶ segment, synced ────▶  durable ≥ its position
//	                  a new pending begins
//
// The writer takes a group only when the one before is on disk. So a group that is not complete on
// disk is the last one, and recovery may cut it off.
type Journal struct {
	options Options
	dir     string
	lock    io.Closer
	segment *segment      // owned by the writing goroutine until stopped
	stopped chan struct{} // closed when the writing goroutine has ended

	durable atomic.Uint64 // position of the last entry on disk; grows before the group's done is closed

	mu   sync.Mutex
	work sync.Cond // the writing goroutine waits for something to do
	room sync.Cond // Append waits until pending is taken
	// appended is the position of the last entry in pending or before it. It grows by one with each
	// entry, under mu, so positions have no gaps.
	appended Position
	pending  *group // receives new entries; never nil
	writing  *group // the group before pending
	spare    []byte // the next group's buffer
	closing  bool
	failed   error // never changes once set

	checkpoint *Checkpoint // being written; nil if none
	logged     int64       // bytes appended since the position of the last committed checkpoint
	image      int64       // bytes of that checkpoint
}

// group is a set of entries that are written together. The journal's mu guards it while it is
// pending. Then the writer owns it, and only done may be used by others.
type group struct {
	first Position // position of the first entry, already appended or not
	last  Position // set when writing begins
	buf   []byte   // records
	done  chan struct{}

	// A checkpoint at position cut divides the group: everything after the first cutBytes goes to
	// a new segment. It may divide an empty group.
	divided  bool
	cut      Position
	cutBytes int
}

func (g *group) empty() bool { return len(g.buf) == 0 && !g.divided }

// Append places an entry after all others and returns its position. The entry is copied but not
// yet on disk: see [Journal.Wait].
//
// If then is not nil, Append calls it with the position before any other entry can be placed. The
// calls of then thus have the order of the log. It must be short and must not call the journal.
//
// Append does not wait for the disk, unless 64 MiB are waiting to be written. Callers that wait
// for one entry before they append the next never reach that limit. Others should from time to
// time wait for an older entry.
//
// The error is [ErrClosed], [ErrTooLarge] (wrapped) or a [*FailedError]; then nothing was placed.
//
// The naive design writes and syncs here, under a lock: n callers then wait for n syncs. A second
// design fixes the position here and copies the entry outside the lock. Entries could then lie on
// disk in another order than their positions, and a gap would remain if one never came. This Append
// does both under one lock. Only the checksum of the data is computed before: it grows with the
// entry and needs no order.
func (j *Journal) Append(entry []byte, then func(Position)) (Position, error) {
	if err := checkLength(entry); err != nil {
		return 0, err
	}
	sum := checksum(entry)
	size := recordOverhead + len(entry)
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.refusalLocked() == nil && len(j.pending.buf) > 0 && len(j.pending.buf)+size > maxBuffered {
		j.room.Wait()
	}
	if err := j.refusalLocked(); err != nil {
		return 0, err
	}
	g := j.pending
	j.appended++
	g.buf = appendRecord(g.buf, recordHeader{
		dataChecksum: sum, length: uint32(len(entry)), place: uint32(j.appended - g.first), position: j.appended,
	}, entry)
	j.logged += int64(size)
	if then != nil {
		then(j.appended)
	}
	j.work.Signal()
	return j.appended, nil
}

// refusalLocked returns the reason that nothing can be appended, or nil.
func (j *Journal) refusalLocked() error {
	if j.failed != nil {
		return j.failed
	}
	if j.closing {
		return ErrClosed
	}
	return nil
}

// Wait returns when the entry at a position and all before it are on disk. If they already are,
// it costs next to nothing. The error is the [*FailedError] of a journal that can no longer write
// the entry, or says that no entry has that position.
//
// Positions tell which group an entry is in, so entries need no record of who waits for them. The
// group is looked up under the lock and awaited without it. Between the two, the group may become
// durable, or the journal may fail. Both close done:
//
//	Wait              reads pending: group 7 ── unlock ─ ─ ─ ─ ─ ─ ─ waits ──┐ durable? else failed
//	the writer                                  takes 7 ── commit, durable, close(done)
//	                                                    or failed, close(done)
//
// So durable is read again at the end. It decides before failed does: an entry that reached the
// disk before the failure was kept.
func (j *Journal) Wait(p Position) error {
	if p <= j.Durable() {
		return nil
	}
	j.mu.Lock()
	if p > j.appended {
		j.mu.Unlock()
		return fmt.Errorf("wait for entry %d: %w", p, errNeverAppended)
	}
	g := j.pending
	if p < g.first {
		g = j.writing // or an older group, which is then durable or failed
	}
	j.mu.Unlock()
	if g != nil {
		<-g.done
	}
	if p <= j.Durable() {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

// Err returns the [*FailedError] of a journal that has failed, else nil.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

// Durable returns the position of the last entry known to be on disk, 0 if there is none.
func (j *Journal) Durable() Position { return Position(j.durable.Load()) }

// Appended returns the position of the last entry appended, 0 if there is none.
func (j *Journal) Appended() Position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.appended
}

// Grown returns how many bytes were logged since the last checkpoint and how many that checkpoint
// has. The owner uses them to decide when the next checkpoint is due. A replay reads both. After
// [Open], logged is what was read from the segments.
func (j *Journal) Grown() (logged, checkpoint int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.logged, j.image
}

// Close puts everything appended on disk, aborts a checkpoint that is not committed, and releases
// the directory. It closes a failed journal too and returns its [*FailedError]. It returns
// [ErrClosed] if the journal was already closed.
//
// The order: no more entries are accepted, and the writer puts what it has on disk and ends. Then
// nobody uses the segment, and it may be closed. A Commit in progress may be waiting for the
// writer's last group; it goes on, and Abort waits for it. The lock of the directory goes last:
// another process must not open files that this one still changes.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closing {
		j.mu.Unlock()
		return ErrClosed
	}
	j.closing = true
	j.work.Signal()
	j.room.Broadcast()
	j.mu.Unlock()

	<-j.stopped
	j.mu.Lock()
	err, c := j.failed, j.checkpoint
	j.mu.Unlock()
	if c != nil {
		c.Abort() // waits for a Commit in progress
	}
	if closeErr := j.segment.close(); err == nil {
		err = closeErr
	}
	if unlockErr := j.lock.Close(); err == nil {
		err = unlockErr
	}
	if err != nil {
		return fmt.Errorf("close journal %s: %w", j.dir, err)
	}
	return nil
}
