package journal

import (
	"fmt"
	"path/filepath"
	"runtime"
)

// run writes groups until the journal is closed or has failed.
//
// durable comes before done: a caller that is woken reads durable to learn what became of its
// entry. Every group that was taken gets its done closed, here or by fail. Otherwise its callers
// would wait for ever.
func (j *Journal) run() {
	defer close(j.stopped)
	for g := j.take(); g != nil; g = j.take() {
		if err := j.segment.commit(g); err != nil {
			j.fail(err)
			return
		}
		j.durable.Store(uint64(g.last))
		close(g.done)
		j.recycle(g)
		// Let woken callers append before the next group is taken. Without this, their entries
		// and those that arrived during the write form two groups that alternate, each with a
		// sync. With it, a sync serves 7.7 of 8 waiting callers instead of 3.8, and 48 of 64
		// instead of 31.
		runtime.Gosched()
	}
}

// take waits for entries and begins a new group; nil if the journal is closing and there are
// none.
//
// Both happen under one hold of the lock, so that each entry is in exactly one group. The new one
// begins right after last. A group with a checkpoint's place counts as work even if it is empty:
// the new segment must come although nobody appends.
func (j *Journal) take() *group {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.pending.empty() {
		if j.closing {
			return nil
		}
		j.work.Wait()
	}
	g := j.pending
	g.last = j.appended
	j.writing = g
	j.pending = newGroup(j.appended+1, j.spare)
	j.spare = nil
	j.room.Broadcast()
	return g
}

// newGroup makes the group of the entries from first on. It may use a buffer that no group has any
// more.
func newGroup(first Position, buf []byte) *group {
	return &group{first: first, buf: buf, done: make(chan struct{})}
}

// recycle keeps the buffer of a group on disk for a later group. The two buffers of a busy journal
// alternate. One that grew in a storm goes to the collector.
func (j *Journal) recycle(g *group) {
	if cap(g.buf) > maxKept {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.spare = g.buf[:0]
}

// fail stops the journal: later entries, and entries not yet on disk, will never be on disk.
//
// failed is set before the groups are closed, under the lock that Wait and Append take. A woken
// caller therefore finds the reason. Callers that wait for room are woken, too, and get the same
// error.
func (j *Journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failed = &FailedError{Durable: j.Durable(), Err: err}
	close(j.writing.done)
	close(j.pending.done) // no more entries are added to it
	j.room.Broadcast()
}

// segment is the file that receives entries. One goroutine uses it at a time: [Open], then the
// writer, then Close. Only the identity, which never changes, is read by others.
//
// Its content is records up to end and zeros up to size. The zeros have two uses. A write into them
// changes neither the length of the file nor its blocks, so a sync has less to write. And recovery
// can tell an unwritten sector, which is still zero, from one that was damaged.
type segment struct {
	files    filesystem
	dir      string
	identity uint64 // of the journal
	limit    int64  // Options.SegmentBytes

	file  file
	name  string
	first Position
	end   int64 // after the last record
	size  int64 // of the file; zeros from end on
}

// The file grows by its limit, within these bounds.
const (
	minExtension = 4 << 10
	maxExtension = 1 << 20
)

var zeros [maxExtension]byte

func (s *segment) extension() int64 { return min(max(s.limit, minExtension), maxExtension) }

// commit puts a group on disk.
//
// A group that a checkpoint divides goes into two segments. All of its entries up to cut must be in
// the older one, because the checkpoint stands for them and removes that segment:
//
//	group           8  9 │ 10 11      checkpoint at 9
//	segment 4  … 7  8  9              removed once the checkpoint has its name
//	segment 10             10 11      kept
//
// The first part is synced before the new segment begins, so an older segment is always complete.
// Recovery relies on it: only the last one may end in the remains of a crash.
func (s *segment) commit(g *group) error {
	before, after := g.buf, []byte(nil)
	if g.divided {
		before, after = g.buf[:g.cutBytes], g.buf[g.cutBytes:]
	}
	if len(before) > 0 {
		if s.end >= s.limit {
			if err := s.roll(g.first); err != nil {
				return err
			}
		}
		if err := s.append(before); err != nil {
			return err
		}
	}
	if !g.divided {
		return nil
	}
	if err := s.roll(g.cut + 1); err != nil {
		return err
	}
	if len(after) == 0 {
		return nil
	}
	return s.append(after)
}

// append writes records and syncs. An error may leave a part of the records in the file. The
// journal then fails, and the next [Open] decides what counts.
func (s *segment) append(records []byte) error {
	if err := s.write(records); err != nil {
		return fmt.Errorf("append %d bytes to %s: %w", len(records), s.name, err)
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", s.name, err)
	}
	return nil
}

// write writes at the end, and extends the file with zeros if it is full.
//
// The zeros go behind the records and into the same sync. A crash between the two writes leaves a
// file without them, which the next write extends.
func (s *segment) write(b []byte) error {
	if _, err := s.file.WriteAt(b, s.end); err != nil {
		return err
	}
	s.end += int64(len(b))
	if s.end <= s.size {
		return nil
	}
	extension := s.extension()
	if _, err := s.file.WriteAt(zeros[:extension], s.end); err != nil {
		return err
	}
	s.size = s.end + extension
	return nil
}

// roll begins a new segment, unless the current one is empty and would have the same name. The old
// file is closed, not synced: append has synced it.
func (s *segment) roll(first Position) error {
	if s.first == first {
		return nil
	}
	if err := s.close(); err != nil {
		return err
	}
	return s.create(first)
}

// create begins a segment. The segment gets its name once its header is on disk. It is used once
// its name is, and the file newest names it.
//
// The header is written under a temporary name. Under its own name, a crash could leave a segment
// without a header, and recovery would have to guess whether that is damage. Each step is durable
// before the next: see newest.go.
func (s *segment) create(first Position) error {
	name := filepath.Join(s.dir, segmentName(first))
	temporary := name + temporarySuffix
	f, err := s.files.Create(temporary)
	if err != nil {
		return fmt.Errorf("begin segment %s: %w", name, err)
	}
	s.file, s.name, s.first, s.end, s.size = f, name, first, 0, 0
	header := fileHeader{magic: segmentMagic, identity: s.identity, position: first}
	if err := s.append(header.encode()); err != nil {
		return err
	}
	if err := s.close(); err != nil { // Windows does not rename an open file
		return err
	}
	if err := s.files.Rename(temporary, name); err != nil {
		return fmt.Errorf("begin segment %s: %w", name, err)
	}
	if err := s.files.SyncDir(s.dir); err != nil {
		return fmt.Errorf("begin segment %s: %w", name, err)
	}
	if err := writeNewest(s.files, s.dir, fileHeader{magic: newestMagic, identity: s.identity, position: first}); err != nil {
		return fmt.Errorf("begin segment %s: %w", name, err)
	}
	if s.file, err = s.files.Open(name); err != nil {
		return fmt.Errorf("begin segment %s: %w", name, err)
	}
	return nil
}

// close closes the file, whose data is all on disk.
func (s *segment) close() error {
	f := s.file
	s.file = nil
	if f == nil {
		return nil
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close %s: %w", s.name, err)
	}
	return nil
}
