package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
)

const (
	// checkpointWriteBytes is how much of a checkpoint is collected before it is written.
	checkpointWriteBytes = 256 << 10

	// checkpointSyncBytes is how much of it is written before it is synced, so that the log's
	// next sync is short.
	checkpointSyncBytes = 4 << 20
)

// Checkpoint is an image that is being written and will stand for all entries up to its position.
// Its methods may be called concurrently, also with those of the journal. The order of concurrent
// Puts is undefined.
//
// The naive design stops the log, writes the image and starts an empty log. Writes then wait for as
// long as the image takes. Here only BeginCheckpoint needs a moment without writes:
//
//	the owner        lock all · BeginCheckpoint · freeze · unlock      Put … Put      Commit
//	the log          … 8 9 ─────────┤ 10 11 12 13 …
//	segments         [ … 8 9 ]      [ 10 11 12 …                        the first is removed
//	the image                         as of 9, under a temporary name   named
//
// Until Commit has renamed the image, the old files stand for everything. After it, the image and
// the segments from 10 on do. Both sets are complete, so a crash at any instant is harmless.
type Checkpoint struct {
	j        *Journal
	position Position
	group    *group // once it is done, the position is on disk and a segment begins after it
	logged   int64  // Journal.logged at the position

	// mu guards what follows. It is taken before the journal's mu, never while that is held.
	mu       sync.Mutex
	finished error // reason that it can no longer be used
	file     file  // nil until the first write
	buf      []byte
	written  int64
	unsynced int64
	count    Position // of entries put
}

// BeginCheckpoint fixes the position of a checkpoint: the last entry appended. It does not touch
// the disk, so the owner can call it while it holds all locks that appends need. The owner thus
// knows which state belongs to the position.
//
// The checkpoint must be committed or aborted; until then, another BeginCheckpoint fails with
// [ErrCheckpointing]. Other errors are those of [Journal.Append].
//
// It marks the place in the pending group, and the writer begins the new segment there. Rolling
// here would make the owner, with all its locks, wait for several syncs.
func (j *Journal) BeginCheckpoint() (*Checkpoint, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.refusalLocked(); err != nil {
		return nil, err
	}
	if j.checkpoint != nil {
		return nil, ErrCheckpointing
	}
	g := j.pending
	// An aborted checkpoint may have divided this group before; its place is no longer needed.
	g.divided, g.cut, g.cutBytes = true, j.appended, len(g.buf)
	c := &Checkpoint{j: j, position: j.appended, group: g, logged: j.logged}
	j.checkpoint = c
	j.work.Signal()
	return c, nil
}

// Position returns the position of the last entry that the checkpoint stands for.
func (c *Checkpoint) Position() Position { return c.position }

// Put adds a copy of an entry to the image. After an error the checkpoint is aborted and the
// journal is as it was. The error is [ErrTooLarge] (wrapped), [ErrClosed] or that of the file
// system.
func (c *Checkpoint) Put(entry []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished != nil {
		return c.finished
	}
	if err := c.putLocked(entry); err != nil {
		return c.abortLocked(err)
	}
	return nil
}

// putLocked numbers the records from 1, so that a missing one shows. It collects records and writes
// them in large pieces.
func (c *Checkpoint) putLocked(entry []byte) error {
	if err := checkLength(entry); err != nil {
		return err
	}
	if err := c.openLocked(); err != nil {
		return err
	}
	c.count++
	c.buf = appendRecord(c.buf, recordHeader{dataChecksum: checksum(entry), length: uint32(len(entry)), position: c.count}, entry)
	if len(c.buf) < checkpointWriteBytes {
		return nil
	}
	return c.flushLocked()
}

func (c *Checkpoint) name() string { return filepath.Join(c.j.dir, checkpointName(c.position)) }

// openLocked creates the file at the first Put, or at Commit for an empty image. BeginCheckpoint
// must not touch the disk.
func (c *Checkpoint) openLocked() error {
	if c.file != nil {
		return nil
	}
	f, err := c.j.options.files.Create(c.name() + temporarySuffix)
	if err != nil {
		return err
	}
	c.file = f
	header := fileHeader{magic: checkpointMagic, identity: c.j.segment.identity, position: c.position}
	c.buf = append(make([]byte, 0, checkpointWriteBytes+checkpointWriteBytes/4), header.encode()...)
	return nil
}

// flushLocked writes what was collected, and syncs from time to time. A single sync at the end
// would write gigabytes at once, and the log's syncs would queue behind it on the disk.
func (c *Checkpoint) flushLocked() error {
	if _, err := c.file.WriteAt(c.buf, c.written); err != nil {
		return err
	}
	c.written += int64(len(c.buf))
	c.unsynced += int64(len(c.buf))
	if cap(c.buf) > maxKept {
		c.buf = nil
	}
	c.buf = c.buf[:0]
	if c.unsynced < checkpointSyncBytes {
		return nil
	}
	c.unsynced = 0
	return c.file.Sync()
}

// Commit puts the image on disk in place of all entries up to its position, and then removes the
// files that it replaces. A crash leaves either the old files or the new. After an error the
// checkpoint is aborted, and the journal continues with the old files; if only the last step is
// uncertain, it continues with both. The error is [ErrClosed], the journal's [*FailedError], or
// that of the file system.
func (c *Checkpoint) Commit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished != nil {
		return c.finished
	}
	if err := c.commitLocked(); err != nil {
		return c.abortLocked(err)
	}
	c.finished = ErrClosed
	j := c.j
	if err := removeObsolete(j.options.files, j.dir, c.position); err != nil {
		j.options.Logger.Warn("files that a checkpoint replaced could not be removed; the next one tries again", "error", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.checkpoint = nil // not earlier: Close waits for the steps above
	j.logged -= c.logged
	j.image = c.written
	return nil
}

// commitLocked makes the image complete and durable, and then gives it its name. It waits for the
// group first: the name makes older segments superfluous, so the segment after the position must
// exist by then. Without the wait, a crash could leave an image that no segment follows, and [Open]
// would report a missing file.
//
//	image synced ─▶ group on disk, next segment begun ─▶ rename ─▶ directory synced ─▶ old files removed
func (c *Checkpoint) commitLocked() error {
	if err := c.openLocked(); err != nil {
		return err
	}
	c.buf = appendRecord(c.buf, recordHeader{place: lastPlace, position: c.count}, nil)
	if err := c.flushLocked(); err != nil {
		return err
	}
	if err := c.file.Sync(); err != nil {
		return err
	}
	if err := c.file.Close(); err != nil {
		return err
	}
	<-c.group.done
	if err := c.j.Err(); err != nil {
		return err
	}
	files, name := c.j.options.files, c.name()
	if err := files.Rename(name+temporarySuffix, name); err != nil {
		return err
	}
	return files.SyncDir(c.j.dir)
}

// Abort gives up the checkpoint and removes the part of it that was written. After
// [Checkpoint.Commit] it does nothing.
func (c *Checkpoint) Abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished == nil {
		_ = c.abortLocked(ErrClosed)
	}
}

// abortLocked ends the checkpoint for the given reason. It returns the reason, wrapped with the
// operation.
func (c *Checkpoint) abortLocked(reason error) error {
	c.finished = reason
	if !errors.Is(reason, ErrClosed) {
		c.finished = fmt.Errorf("write checkpoint %s: %w", c.name(), reason)
	}
	if c.file != nil {
		// The file is no longer needed, and Open removes any remains, so errors here do not
		// matter.
		_ = c.file.Close()
		_ = c.j.options.files.Remove(c.name() + temporarySuffix)
	}
	c.buf = nil
	c.j.mu.Lock()
	defer c.j.mu.Unlock()
	c.j.checkpoint = nil
	return c.finished
}

// removeObsolete removes the files that a checkpoint at p, on disk, makes superfluous.
func removeObsolete(files filesystem, dir string, p Position) error {
	names, err := files.List(dir)
	if err != nil {
		return err
	}
	in := takeInventory(names)
	return remove(files, dir, in.obsolete(p))
}

// remove removes files and makes that durable. If it is interrupted, [Open] removes the rest.
func remove(files filesystem, dir string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		if err := files.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return files.SyncDir(dir)
}
