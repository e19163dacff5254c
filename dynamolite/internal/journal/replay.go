package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
)

// readSegment loads the entries of a segment; the last one's file stays open as the tail.
//
// The header of each segment and the position of each record are checked against what the previous
// one leads to. A whole segment or record that was exchanged has correct checksums, and would show
// nowhere else.
func (r *recovery) readSegment(first Position, last bool) (err error) {
	name := filepath.Join(r.dir, segmentName(first))
	f, err := r.files.Open(name)
	if err != nil {
		return err
	}
	r.tail.file, r.tail.name, r.tail.first = f, name, first
	defer func() {
		if err == nil && !last {
			err = r.tail.close()
		}
	}()
	size, err := f.Size()
	if err != nil {
		return err
	}
	w := window{file: f, size: size}
	if last && size == 0 {
		// A crash cannot cause this: an operator empties a segment to continue without it.
		return r.tail.close()
	}
	if err := r.header(&w, fileHeader{magic: segmentMagic, position: first}, last); err != nil {
		return err
	}
	r.tail.identity, r.tail.size, r.tail.end = r.identity, size, fileHeaderBytes
	for {
		rec, err := w.record(r.tail.end)
		if err != nil {
			return err
		}
		if rec.fault != whole {
			return r.ending(&w, rec, last)
		}
		if rec.position != r.position+1 {
			return r.brokenAt(fmt.Sprintf("entry %d stands where %d belongs", rec.position, r.position+1), last)
		}
		if err := r.load(Entry{Position: rec.position, Data: rec.data}); err != nil {
			return fmt.Errorf("load entry %d: %w", rec.position, err)
		}
		r.position = rec.position
		r.logged += rec.size
		r.tail.end += rec.size
	}
}

// header checks the header of a file against the expected one.
func (r *recovery) header(w *window, want fileHeader, last bool) error {
	b, err := w.at(0, int(min(w.size, fileHeaderBytes)))
	if err != nil {
		return err
	}
	got, reason := decodeFileHeader(b, want.magic)
	switch {
	case reason != "":
	case got.position != want.position:
		reason = fmt.Sprintf("the file has been renamed: inside, its position is %d", got.position)
	case r.known && got.identity != r.identity:
		reason = "the file belongs to another journal than those before it"
	}
	if reason != "" {
		r.tail.end = 0
		if want.magic == segmentMagic {
			return r.brokenAt(reason, last)
		}
		return r.brokenCheckpoint(0, reason)
	}
	r.known, r.identity = true, got.identity
	return nil
}

// brokenAt reports damage at the end of the readable part of a segment.
func (r *recovery) brokenAt(reason string, last bool) error {
	away := ""
	if !last {
		away = " and move the later segments and the file " + newestName + " away"
	}
	return r.damaged(r.tail.name, r.tail.end, reason,
		fmt.Sprintf("%s; or cut this file to %d bytes%s, which loses all entries after %d", restoreCopy, r.tail.end, away, r.position))
}

// ending decides whether the readable part of a segment ends at its end, at the remains of a
// crash, or at damage.
//
// A record that cannot be read is what a crash leaves if it was never completely written, and
// damage if it was. These are the cases:
//
//	only zeros from here on                     the end of the log
//	goes past the file or its content           a crash: the last write did not finish
//	has a sector of zeros, nothing later        a crash: that sector was not written
//	has a sector of zeros, a later group        damage: the later group proves it was on disk
//	no sector of zeros                          damage: a sector is written as a whole or not at all
//	a fault of any kind, and a later segment    damage: a segment is complete before the next begins
func (r *recovery) ending(w *window, rec record, last bool) error {
	off := r.tail.end
	rest, err := w.examine(off, r.position+1)
	if err != nil {
		return err
	}
	if rest.content == off {
		return nil
	}
	end := off + rec.size - 1 // offset of its last byte, which is not zero
	if rec.fault == badHeader {
		end = off + recordHeaderBytes // at the earliest
	}
	unfinished := rec.fault == cutShort || rest.content <= end
	torn := unfinished
	if !torn {
		if torn, err = w.zeroSector(off, rec.size); err != nil {
			return err
		}
	}
	switch {
	case !last:
		return r.brokenAt(rec.fault.String()+", and a later segment follows", last)
	case torn && !unfinished && rest.later:
		return r.brokenAt(rec.fault.String()+", and a later entry shows that it was complete once", last)
	case !torn:
		return r.brokenAt(rec.fault.String(), last)
	}
	r.torn = &leaving{bytes: rest.content - off, reason: rec.fault.String()}
	return nil
}

// readCheckpoint loads the newest checkpoint.
//
// Nothing in it may be incomplete: it got its name after it was synced. So every fault is damage,
// and its last record tells that none is missing.
func (r *recovery) readCheckpoint() (err error) {
	f, err := r.files.Open(filepath.Join(r.dir, checkpointName(r.checkpoint)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if r.image, err = f.Size(); err != nil {
		return err
	}
	w := window{file: f, size: r.image}
	if err := r.header(&w, fileHeader{magic: checkpointMagic, position: r.checkpoint}, false); err != nil {
		return err
	}
	off := int64(fileHeaderBytes)
	for count := Position(0); ; count++ {
		rec, err := w.record(off)
		switch {
		case err != nil:
			return err
		case rec.fault != whole:
			return r.brokenCheckpoint(off, rec.fault.String())
		case rec.place == lastPlace && (rec.position != count || off+rec.size != w.size):
			return r.brokenCheckpoint(off, "the file does not end where its last record says")
		case rec.place == lastPlace:
			return nil
		case rec.position != count+1:
			return r.brokenCheckpoint(off, fmt.Sprintf("entry %d stands where %d belongs", rec.position, count+1))
		}
		if err := r.load(Entry{Position: r.checkpoint, Checkpoint: true, Data: rec.data}); err != nil {
			return fmt.Errorf("load entry %d of checkpoint %d: %w", rec.position, r.checkpoint, err)
		}
		off += rec.size
	}
}

// brokenCheckpoint reports damage in the newest checkpoint. Older files that it replaced may
// still exist.
func (r *recovery) brokenCheckpoint(offset int64, reason string) error {
	remedy := fmt.Sprintf("%s: this file alone holds the entries up to %d", restoreCopy, r.checkpoint)
	if len(r.in.segments) > 0 && r.in.segments[0] <= r.checkpoint {
		remedy = restoreCopy + "; or move this file away: the older files that it replaced may be complete, and if they are, nothing is lost"
	}
	return r.damaged(filepath.Join(r.dir, checkpointName(r.checkpoint)), offset, reason, remedy)
}

// fault is the reason that no record could be read.
type fault int

const (
	whole     fault = iota // none
	cutShort               // the record goes past the end of the file
	badHeader              // its checksum fails
	badData
)

func (f fault) String() string {
	switch f {
	case cutShort:
		return "an entry goes past the end of the file"
	case badHeader:
		return "the checksum of an entry's header does not match"
	case badData:
		return "the checksum of an entry's data does not match"
	case whole:
	}
	return "an entry is whole"
}

// record is the result of reading at one place of a file.
type record struct {
	recordHeader

	fault fault
	size  int64 // only that of the header if the header is bad
	data  []byte
}

// windowBytes is how many bytes are read at once.
const windowBytes = 1 << 20

// window is a part of a file in memory. It is never larger than the file or than one record
// needs.
//
// The naive design reads the file as a whole. A segment of 64 MiB, or a checkpoint of gigabytes,
// would then be in memory beside the state that is rebuilt from it.
type window struct {
	file  file
	size  int64 // of the file
	start int64 // of buf in the file
	buf   []byte
}

// at returns n bytes of the file, which must exist. They are valid until the next call.
func (w *window) at(off int64, n int) ([]byte, error) {
	if from := off - w.start; from >= 0 && from+int64(n) <= int64(len(w.buf)) {
		return w.buf[from : from+int64(n)], nil
	}
	length := int(min(int64(max(n, windowBytes)), w.size-off))
	if length > cap(w.buf) {
		w.buf = make([]byte, length)
	}
	w.start, w.buf = off, w.buf[:length]
	if read, err := w.file.ReadAt(w.buf, off); read < length {
		w.buf = w.buf[:0]
		return nil, fmt.Errorf("read %d bytes at %d: %w", length, off, errors.Join(io.ErrUnexpectedEOF, err))
	}
	return w.buf[:n], nil
}

// record reads the record at a place. Its data is valid until the window is used again.
func (w *window) record(off int64) (record, error) {
	rest := w.size - off
	if rest < recordOverhead {
		return record{fault: cutShort, size: rest}, nil
	}
	b, err := w.at(off, recordHeaderBytes)
	if err != nil {
		return record{}, err
	}
	h, ok := decodeRecordHeader(b)
	rec := record{recordHeader: h, fault: badHeader, size: recordHeaderBytes}
	if !ok {
		return rec, nil
	}
	rec.size = recordOverhead + int64(h.length)
	if rec.size > rest {
		rec.fault = cutShort
		return rec, nil
	}
	if b, err = w.at(off, int(rec.size)); err != nil {
		return record{}, err
	}
	rec.data = b[recordHeaderBytes : rec.size-1]
	rec.fault = whole
	if checksum(rec.data) != h.dataChecksum || b[rec.size-1] != recordEnd {
		rec.fault = badData
	}
	return rec, nil
}

// zeroSector reports whether a part of a file contains a sector of zeros. Of a sector that it
// covers only in part, that part counts.
//
// Extended files are zero where nothing was written, so an unwritten sector is all zero. Records
// end with a byte that is not, so a complete record has a sector of zeros only if its data has one.
// Such a record is whole, and is not examined.
func (w *window) zeroSector(off, size int64) (bool, error) {
	for end := off + size; off < end; {
		n := min(sectorBytes-off%sectorBytes, end-off)
		b, err := w.at(off, int(n))
		if err != nil {
			return false, err
		}
		if len(bytes.TrimRight(b, "\x00")) == 0 {
			return true, nil
		}
		off += n
	}
	return false, nil
}

// remains describes everything after the readable part of a segment.
type remains struct {
	content int64 // offset after the last byte that is not zero; the end of the readable part if there is none
	later   bool  // it has an entry whose group began when the entry in question was on disk
}

// examine scans everything from the place on where entry p should be.
//
// It reads to the end of the file even after finding a later group, because content bounds what is
// cut off. It runs once for each segment, which ends with zeros as a rule.
func (w *window) examine(off int64, p Position) (remains, error) {
	found := remains{content: off}
	for at := off; at < w.size; {
		b, err := w.at(at, int(min(windowBytes, w.size-at)))
		if err != nil {
			return found, err
		}
		if n := len(bytes.TrimRight(b, "\x00")); n > 0 {
			found.content = at + int64(n)
		}
		found.later = found.later || laterGroup(b, p, w.size-off)
		if at+int64(len(b)) == w.size {
			break
		}
		at += int64(len(b)) - recordHeaderBytes + 1 // a header may cross the border of two windows
	}
	return found, nil
}

// laterGroup looks for the header of an entry whose group began after entry p. It looks at every
// byte, because the lengths before it cannot be trusted. There is room for so many bytes from p
// on.
//
// The checksum of a header has 32 bits, and data may look like one by chance. The position is
// therefore compared first, with what there is room for, which leaves few candidates.
func laterGroup(b []byte, p Position, room int64) bool {
	most := p + Position(room/recordHeaderBytes)
	for ; len(b) >= recordHeaderBytes; b = b[1:] {
		position := Position(binary.LittleEndian.Uint64(b[16:]))
		if position <= p || position > most {
			continue
		}
		if h, ok := decodeRecordHeader(b); ok && h.position-min(h.position, Position(h.place)) > p {
			return true
		}
	}
	return false
}
