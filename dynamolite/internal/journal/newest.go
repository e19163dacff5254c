package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// The file newest holds the position of the newest segment. A segment that is missing between
// others shows, but without this file the loss of the last one would not: a journal may end with
// any segment.
//
// A new segment, the file newest and entries reach the disk in this order:
//
//	segment 9 and its name ──▶ newest: 9 ──▶ the first entry of segment 9
//	           crash A          crash B
//
// After crash A, newest names the segment before. Segment 9 is then empty, and Open writes newest
// again before it allows an entry. Newest therefore never names an older segment than the last one
// with an entry, and never one that a crash can have kept from existing.

// writeNewest replaces the file newest, durably. It is a file of its own and replaced as a whole: a
// crash leaves the old content or the new.
func writeNewest(files filesystem, dir string, h fileHeader) error {
	name := filepath.Join(dir, newestName)
	f, err := files.Create(name + temporarySuffix)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(h.encode(), 0); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := files.Rename(name+temporarySuffix, name); err != nil {
		return err
	}
	return files.SyncDir(dir)
}

// readNewest reads the file newest. A directory without one is new, or was written by an earlier
// version.
func (r *recovery) readNewest(names []string) (err error) {
	if !slices.Contains(names, newestName) {
		return nil
	}
	name := filepath.Join(r.dir, newestName)
	f, err := r.files.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return err
	}
	w := window{file: f, size: size}
	b, err := w.at(0, int(min(size, fileHeaderBytes)))
	if err != nil {
		return err
	}
	h, reason := decodeFileHeader(b, newestMagic)
	if reason == "" && size != fileHeaderBytes {
		reason = "the file is longer than it was written"
	}
	if reason != "" {
		return r.damaged(name, 0, reason, restoreCopy+"; or make sure that no log file is missing, and remove this file")
	}
	r.newest = h
	return nil
}

// checkNewest reports that the newest segment is missing, after all others have been read. It comes
// last, because only then is it known where the others end. A newest that is older than the last
// segment is crash A, and [Open] mends it.
func (r *recovery) checkNewest() error {
	name := filepath.Join(r.dir, newestName)
	switch {
	case r.newest.position == 0: // there is no such file
		return nil
	case r.known && r.newest.identity != r.identity:
		return r.damaged(name, 0, "the file belongs to another journal than the others", restoreCopy+"; or make sure that no log file is missing, and remove this file")
	case r.newest.position > r.tail.first || !r.known:
		return r.damaged(filepath.Join(r.dir, segmentName(r.newest.position)), 0, "the newest segment is missing",
			fmt.Sprintf("restore it from a copy; or remove the file %s, which loses all entries after %d", newestName, r.position))
	}
	return nil
}
