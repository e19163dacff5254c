package journal

// FS and File are the file system that the journal works on.
type (
	FS   = filesystem
	File = file
)

// The format, for tests that damage files.
const (
	FileHeaderBytes   = fileHeaderBytes
	RecordOverhead    = recordOverhead
	RecordHeaderBytes = recordHeaderBytes
	SectorBytes       = sectorBytes
	MaxBuffered       = maxBuffered
	NewestName        = newestName
)

var (
	SegmentName    = segmentName
	CheckpointName = checkpointName
	SyncData       = syncData
)

// OSFiles is the file system of the operating system.
func OSFiles() FS { return osFiles{} }

// On makes Open use another file system.
func (o Options) On(files FS) Options {
	o.files = files
	return o
}
