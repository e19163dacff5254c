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

	// checkpointSyncBytes is how much of it is written before it is synced, so that the log's next sync finds little in its way.
	checkpointSyncBytes = 4 << 20
)

// Checkpoint is an image being written that will stand for all entries up to its position. Its methods may be called concurrently, also with those of
// the journal, but the order of concurrent Puts is nobody's.
type Checkpoint struct {
	j        *Journal
	position Position
	group    *group // when it is done, the position is on disk and a segment begins after it
	logged   int64  // Journal.logged at the position

	mu       sync.Mutex
	finished error // why it can no longer be used
	file     file  // nil until the first write
	buf      []byte
	written  int64
	unsynced int64
	count    Position // of entries put
}

// BeginCheckpoint fixes the position of a checkpoint: the last one appended. It does not touch the disk, so it can be called while everything is locked
// that could append, which is how the owner knows which state belongs to the position.
//
// The checkpoint must be committed or aborted; until then the error is [ErrCheckpointing]. Other errors are those of [Journal.Append].
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
	// An aborted checkpoint may have divided the group before; its place is of no use any more.
	g.divided, g.cut, g.cutBytes = true, j.appended, len(g.buf)
	c := &Checkpoint{j: j, position: j.appended, group: g, logged: j.logged}
	j.checkpoint = c
	j.work.Signal()
	return c, nil
}

// Position is the last entry the checkpoint stands for.
func (c *Checkpoint) Position() Position { return c.position }

// Put adds an entry to the image; it is copied. After an error the checkpoint is aborted and the journal is as it was. The error is
// [ErrTooLarge] (wrapped), [ErrClosed] or that of the file system.
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

// Commit puts the image on disk in place of all entries up to its position, and then removes what it replaces. A crash leaves either the old files or the new. After an
// error the checkpoint is aborted, and the journal goes on with the old files; should only the last step be uncertain, with both. The
// error is [ErrClosed], the journal's [*FailedError], or that of the file system.
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
	j.checkpoint = nil // not earlier: Close waits for the above
	j.logged -= c.logged
	j.image = c.written
	return nil
}

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
	if err := c.j.failure(); err != nil {
		return err
	}
	files, name := c.j.options.files, c.name()
	if err := files.Rename(name+temporarySuffix, name); err != nil {
		return err
	}
	return files.SyncDir(c.j.dir)
}

// failure is what made the journal fail, if it has.
func (j *Journal) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

// Abort gives the checkpoint up and removes what was written of it. After [Checkpoint.Commit] it does nothing.
func (c *Checkpoint) Abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished == nil {
		_ = c.abortLocked(ErrClosed)
	}
}

// abortLocked ends the checkpoint for the given reason, which it returns with what was being done.
func (c *Checkpoint) abortLocked(reason error) error {
	c.finished = reason
	if !errors.Is(reason, ErrClosed) {
		c.finished = fmt.Errorf("write checkpoint %s: %w", c.name(), reason)
	}
	if c.file != nil {
		// The file is of no use and Open removes what is left of it, so that it does not matter whether these succeed.
		_ = c.file.Close()
		_ = c.j.options.files.Remove(c.name() + temporarySuffix)
	}
	c.buf = nil
	c.j.mu.Lock()
	defer c.j.mu.Unlock()
	c.j.checkpoint = nil
	return c.finished
}

// removeObsolete removes what a checkpoint at p, on disk, makes superfluous.
func removeObsolete(files filesystem, dir string, p Position) error {
	names, err := files.List(dir)
	if err != nil {
		return err
	}
	in := takeInventory(names)
	return remove(files, dir, in.obsolete(p))
}

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
