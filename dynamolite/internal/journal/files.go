package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// filesystem is the part of a file system that the journal needs. Names are paths. Changes by
// Create, Rename and Remove in a directory survive a crash only after SyncDir; data written to a
// file survives only after its Sync.
//
// Tests replace it by one that loses what was not synced, at any step. So these two sentences are
// the whole contract: what a file system does beyond them, the journal does not use.
type filesystem interface {
	// MkdirAll makes a directory and its parents durably. It is no error if the directory exists.
	MkdirAll(dir string) error
	// Lock makes a file and takes its lock; ErrLocked if the lock is taken.
	Lock(name string) (io.Closer, error)
	// List returns the base names in a directory.
	List(dir string) ([]string, error)
	// Create makes an empty file and replaces a file of that name.
	Create(name string) (file, error)
	Open(name string) (file, error)
	Rename(from, to string) error
	Remove(name string) error
	SyncDir(dir string) error
}

// file is open for reading and writing.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	// Sync puts the written data on disk, with as much of the metadata as is needed to read it.
	Sync() error
	Size() (int64, error)
}

// osFiles is the file system of the operating system.
type osFiles struct{}

var _ filesystem = osFiles{}

// MkdirAll syncs each parent after it has made a directory. After os.MkdirAll, a loss of power
// could take the directory with all its synced files.
func (o osFiles) MkdirAll(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is a file; the journal needs a directory", dir)
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if err := o.MkdirAll(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.SyncDir(parent)
}

// Lock takes a lock of the operating system. It ends with the process, so a crash leaves none. A
// file that only exists would outlive a crash and refuse every later start.
func (osFiles) Lock(name string) (io.Closer, error) {
	l := flock.New(name)
	locked, err := l.TryLock()
	if err == nil && !locked {
		err = ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (osFiles) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFiles) Create(name string) (file, error) {
	return openFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (osFiles) Open(name string) (file, error) { return openFile(name, os.O_RDWR) }

func openFile(name string, flag int) (file, error) {
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFiles) Rename(from, to string) error { return os.Rename(from, to) }

func (osFiles) Remove(name string) error { return os.Remove(name) }

func (osFiles) SyncDir(dir string) error { return syncDir(dir) }

type osFile struct{ *os.File }

func (f osFile) Sync() error { return syncData(f.File) }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Suffixes of file names.
const (
	segmentSuffix    = ".log"
	checkpointSuffix = ".checkpoint"
	temporarySuffix  = ".tmp"
	lockName         = "lock"
	newestName       = "newest"
)

// positionDigits is enough for every position, so that names sort as positions do.
const positionDigits = 20

func segmentName(first Position) string {
	return fmt.Sprintf("%0*d%s", positionDigits, first, segmentSuffix)
}

func checkpointName(p Position) string {
	return fmt.Sprintf("%0*d%s", positionDigits, p, checkpointSuffix)
}

// inventory lists the contents of a directory, each kind in order. Names that the journal does
// not use are left out.
type inventory struct {
	segments    []Position // of their first entries
	checkpoints []Position
	temporary   []string
}

func takeInventory(names []string) inventory {
	var in inventory
	for _, name := range names {
		if p, ok := positionIn(name, segmentSuffix); ok && p > 0 {
			in.segments = append(in.segments, p)
		}
		if p, ok := positionIn(name, checkpointSuffix); ok {
			in.checkpoints = append(in.checkpoints, p)
		}
		if strings.HasSuffix(name, temporarySuffix) {
			in.temporary = append(in.temporary, name)
		}
	}
	slices.Sort(in.segments)
	slices.Sort(in.checkpoints)
	return in
}

func positionIn(name, suffix string) (Position, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != positionDigits {
		return 0, false
	}
	p, err := strconv.ParseUint(digits, 10, 64)
	return Position(p), err == nil
}

// obsolete returns the files that a checkpoint at p makes superfluous. The segment after p begins
// at p+1, so earlier segments hold no later entries. It never names the segment after p, even if it
// is empty.
func (in *inventory) obsolete(p Position) []string {
	var names []string
	for _, first := range in.segments {
		if first <= p {
			names = append(names, segmentName(first))
		}
	}
	for _, c := range in.checkpoints {
		if c < p {
			names = append(names, checkpointName(c))
		}
	}
	return names
}

// Exists reports whether a directory has a journal. It changes nothing. A missing directory
// has none.
func Exists(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	in := takeInventory(names)
	return len(in.segments)+len(in.checkpoints) > 0, err
}
