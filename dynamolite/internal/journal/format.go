package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// The format of the files; the package comment describes it.
const (
	formatVersion     = 1
	segmentMagic      = "dynlog\r\n" // a transfer that changes line ends is detected
	checkpointMagic   = "dynckp\r\n"
	newestMagic       = "dynnew\r\n"
	fileHeaderBytes   = 32
	recordHeaderBytes = 24
	recordEnd         = 0xE5
	recordOverhead    = recordHeaderBytes + 1 // of recordEnd
	sectorBytes       = 512                   // the least that a disk writes whole or not at all

	// lastPlace marks the last record of a checkpoint. A group never has as many entries.
	lastPlace = math.MaxUint32
)

// MaxEntryBytes is the largest size of an entry. An engine's largest entry, a transaction of a
// hundred items, has a sixth of it.
const MaxEntryBytes = 256 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// fileHeader is the beginning of a file. The identity tells the files of one journal from those of
// another. The position repeats the one in the name, so a renamed file shows.
type fileHeader struct {
	magic    string
	identity uint64
	position Position
}

// encode returns the header as it is on disk. Its checksum covers everything but itself.
func (h *fileHeader) encode() []byte {
	b := make([]byte, 0, fileHeaderBytes)
	b = append(b, h.magic...)
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, h.identity)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.position))
	binary.LittleEndian.PutUint32(b[12:], fileChecksum(b))
	return b
}

func fileChecksum(b []byte) uint32 {
	return crc32.Update(checksum(b[:12]), castagnoli, b[16:fileHeaderBytes])
}

// decodeFileHeader checks the beginning of a file. It returns what is wrong with it, or "". The
// version comes before the checksum: a later version may compute another one, and the operator
// should read which version the file has.
func decodeFileHeader(b []byte, magic string) (h fileHeader, reason string) {
	if len(b) < fileHeaderBytes {
		return h, "the file is shorter than its header"
	}
	if string(b[:8]) != magic {
		return h, "the file is not what its name says"
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return h, fmt.Sprintf("the file has format version %d, this program reads version %d", v, formatVersion)
	}
	if binary.LittleEndian.Uint32(b[12:]) != fileChecksum(b) {
		return h, "the checksum of the file's header does not match"
	}
	return fileHeader{magic: magic, identity: binary.LittleEndian.Uint64(b[16:]), position: Position(binary.LittleEndian.Uint64(b[24:]))}, ""
}

// recordHeader precedes the data of an entry. It holds the checksum of the data and a checksum of
// its own, so that the length can be trusted before the data is read.
//
// place is what recovery needs to tell a crash from damage: position minus place is the same for
// all records of a group. So one later record tells when its group began, and with it which records
// were on disk by then.
type recordHeader struct {
	dataChecksum uint32
	length       uint32
	place        uint32
	position     Position
}

// appendRecord appends header, data and end.
func appendRecord(b []byte, h recordHeader, data []byte) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, h.dataChecksum)
	b = binary.LittleEndian.AppendUint32(b, h.length)
	b = binary.LittleEndian.AppendUint32(b, h.place)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.position))
	binary.LittleEndian.PutUint32(b[at:], checksum(b[at+4:]))
	b = append(b, data...)
	return append(b, recordEnd)
}

// decodeRecordHeader reads recordHeaderBytes; ok reports whether their checksum matches. The values
// mean something only if ok.
func decodeRecordHeader(b []byte) (h recordHeader, ok bool) {
	h = recordHeader{
		dataChecksum: binary.LittleEndian.Uint32(b[4:]),
		length:       binary.LittleEndian.Uint32(b[8:]),
		place:        binary.LittleEndian.Uint32(b[12:]),
		position:     Position(binary.LittleEndian.Uint64(b[16:])),
	}
	return h, binary.LittleEndian.Uint32(b) == checksum(b[4:recordHeaderBytes])
}

func checkLength(entry []byte) error {
	if len(entry) > MaxEntryBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(entry), MaxEntryBytes)
	}
	return nil
}
