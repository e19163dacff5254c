package journal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
)

// Open locks a directory, which it creates if needed, and calls load for every entry in
// it. The entries of the newest checkpoint come first, then those logged after it, in
// order. The journal is then ready to append.
//
// The error is [ErrLocked], a [*DamagedError], the error of load, all wrapped, or that of the
// file system. load may have been called before the error.
func Open(dir string, o Options, load func(Entry) error) (*Journal, error) {
	j, err := open(dir, o, load)
	if err != nil {
		return nil, fmt.Errorf("open journal %s: %w", dir, err)
	}
	return j, nil
}

// open reads everything before it changes a file of the journal, so that damage leaves them as they
// were. The lock comes first: without it, another process could write while this one reads.
func open(dir string, o Options, load func(Entry) error) (_ *Journal, err error) {
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	if err := o.files.MkdirAll(dir); err != nil {
		return nil, err
	}
	lock, err := o.files.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	r := recovery{files: o.files, dir: dir, load: load}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.tail.close(), lock.Close())
		}
	}()
	if err := r.read(); err != nil {
		return nil, err
	}
	r.tail.limit = o.SegmentBytes
	if err := r.mend(o); err != nil {
		return nil, err
	}
	j := &Journal{
		options: o, dir: dir, lock: lock, segment: &r.tail, stopped: make(chan struct{}),
		appended: r.position, pending: newGroup(r.position+1, nil), logged: r.logged, image: r.image,
	}
	j.work.L, j.room.L = &j.mu, &j.mu
	j.durable.Store(uint64(r.position))
	go j.run()
	return j, nil
}

// recovery is the state of Open. It changes nothing on disk before mend.
//
// The order of the journal's writes limits what a crash can leave behind: see the package comment.
// Everything else is damage. The naive recovery ends the log at the first record that it cannot
// read. A bad sector in the middle then silently loses all later entries, although they were
// confirmed.
type recovery struct {
	files filesystem
	dir   string
	load  func(Entry) error

	known      bool // identity is set
	identity   uint64
	checkpoint Position // 0 also if there is none
	position   Position // of the last entry read
	logged     int64
	image      int64

	newest fileHeader // of the file newest; position 0 if there is none

	tail segment  // the last; its file is open unless it must be created
	torn *leaving // the part to be cut off it, or nil
	in   inventory
}

// leaving is the end of a segment that a crash left unfinished.
type leaving struct {
	bytes  int64 // up to the last byte that is not zero
	reason string
}

// read finds the newest checkpoint and the segments after it, and loads them.
//
// Segments up to the checkpoint are ignored: they are waiting for their removal. The others must
// follow each other without a gap, from the checkpoint's position on. Only the last may end in the
// remains of a crash.
func (r *recovery) read() error {
	names, err := r.files.List(r.dir)
	if err != nil {
		return err
	}
	r.in = takeInventory(names)
	if err := r.readNewest(names); err != nil {
		return err
	}
	r.tail = segment{files: r.files, dir: r.dir, first: 1}
	if n := len(r.in.checkpoints); n > 0 {
		r.checkpoint = r.in.checkpoints[n-1]
		if err := r.readCheckpoint(); err != nil {
			return err
		}
	} else if len(r.in.segments) == 0 {
		return r.checkNewest()
	}
	r.position = r.checkpoint
	var after []Position
	for _, first := range r.in.segments {
		if first > r.checkpoint {
			after = append(after, first)
		}
	}
	if len(after) == 0 || after[0] != r.checkpoint+1 {
		return r.missingFirst(after)
	}
	for i, first := range after {
		if first != r.position+1 {
			return r.gap(after[i-1], first)
		}
		if err := r.readSegment(first, i == len(after)-1); err != nil {
			return err
		}
	}
	return r.checkNewest()
}

// missingFirst reports that no segment begins after the newest checkpoint, or at the start of the
// journal.
func (r *recovery) missingFirst(after []Position) error {
	file := filepath.Join(r.dir, segmentName(r.checkpoint+1))
	switch {
	case len(after) == 0:
		return r.damaged(file, 0, "the segment after the newest checkpoint is missing",
			fmt.Sprintf("restore it from a copy; or make an empty file of this name and remove the file %s, which loses all entries after %d", newestName, r.checkpoint))
	case len(r.in.checkpoints) == 0:
		return r.damaged(file, 0, fmt.Sprintf("the oldest segment begins with entry %d, and there is no checkpoint of those before", after[0]),
			"restore the checkpoint from a copy")
	default:
		return r.damaged(file, 0, fmt.Sprintf("entries %d to %d are missing, between the newest checkpoint and the first segment after it", r.checkpoint+1, after[0]-1),
			fmt.Sprintf("restore the missing segment from a copy; or move the later segments and the file %s away and make an empty file of this name, which loses all entries after %d", newestName, r.checkpoint))
	}
}

// gap reports that a segment does not continue where the one before ended.
func (r *recovery) gap(before, first Position) error {
	file := filepath.Join(r.dir, segmentName(before))
	if first <= r.position {
		return r.damaged(file, r.tail.end, fmt.Sprintf("its entries go to %d, but the next segment begins with %d", r.position, first), restoreCopy)
	}
	return r.damaged(file, r.tail.end, fmt.Sprintf("entries %d to %d are missing after it", r.position+1, first-1),
		fmt.Sprintf("restore the missing segment or a longer copy of this one; or move the later segments and the file %s away, which loses all entries after %d", newestName, r.position))
}

// mend brings the directory into the state of an open journal: the entries read are on disk,
// superfluous files are gone, and there is a segment to append to.
//
// The order matters. The entries read count as durable from now on, so they are synced before the
// first Append. A killed process leaves data in the kernel's memory, which a loss of power would still
// take. The cut is part of that sync. Files are removed after the names of those that replace them
// are durable. newest comes last, and before any entry.
func (r *recovery) mend(o Options) error {
	if r.torn != nil {
		o.Logger.Warn("cut off entries that a crash left unfinished; none had been confirmed, unless the file was shortened since",
			"file", r.tail.name, "offset", r.tail.end, "bytes", r.torn.bytes, "reason", r.torn.reason)
		if err := r.tail.file.Truncate(r.tail.end); err != nil {
			return err
		}
		r.tail.size = r.tail.end
	}
	if r.tail.file != nil {
		// The process that wrote this data may have been killed before it synced.
		if err := r.tail.file.Sync(); err != nil {
			return err
		}
	}
	if err := r.files.SyncDir(r.dir); err != nil {
		return err
	}
	if err := remove(r.files, r.dir, append(r.in.temporary, r.in.obsolete(r.checkpoint)...)); err != nil {
		return err
	}
	if r.tail.file != nil {
		if r.newest.position == r.tail.first {
			return nil
		}
		// A crash came between the segment and the file newest, or an earlier version wrote both.
		return writeNewest(r.files, r.dir, fileHeader{magic: newestMagic, identity: r.identity, position: r.tail.first})
	}
	if r.tail.name != "" {
		o.Logger.Warn("the last segment was an empty file; it was created again", "file", r.tail.name, "position", r.tail.first)
	}
	if !r.known {
		var random [8]byte
		if _, err := rand.Read(random[:]); err != nil {
			return err
		}
		r.identity = binary.LittleEndian.Uint64(random[:])
	}
	r.tail.identity = r.identity
	return r.tail.create(r.tail.first)
}

const restoreCopy = "restore the directory from a copy"

func (r *recovery) damaged(file string, offset int64, reason, remedy string) error {
	return &DamagedError{File: file, Offset: offset, Reason: reason, Remedy: remedy}
}
