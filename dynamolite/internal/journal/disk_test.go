package journal_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

// disk is a file system in memory that knows which data would survive a crash.
type disk struct {
	mu      sync.Mutex
	names   map[string]*inode // as the running process sees them
	durable map[string]*inode // since the last SyncDir
	locked  map[string]bool

	// before is called ahead of every operation that changes something, if not nil. If it returns
	// an error, the operation fails; a failed write still writes its first short bytes.
	before func(o operation) (short int, err error)
	done   []operation
}

// inode is the content of a file: as it is read, and as it certainly survives a crash.
type inode struct{ data, synced []byte }

// operation is a call that changes something.
type operation struct {
	kind string // create, write, truncate, sync, rename, remove, syncdir
	name string // base name
	size int    // of a write
}

var errPower = errors.New("the power is out")

func newDisk() *disk {
	return &disk{names: map[string]*inode{}, durable: map[string]*inode{}, locked: map[string]bool{}}
}

var _ journal.FS = (*disk)(nil)

// beginLocked calls before and returns its result.
func (d *disk) beginLocked(kind, name string, size int) (short int, err error) {
	o := operation{kind, filepath.Base(name), size}
	if d.before != nil {
		if short, err = d.before(o); err != nil {
			return short, &fs.PathError{Op: kind, Path: name, Err: err}
		}
	}
	d.done = append(d.done, o)
	return size, nil
}

// failAfter lets the first n operations succeed and all later ones fail. If the first that fails
// is a write, a part of it is done.
func (d *disk) failAfter(n int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before = func(o operation) (int, error) {
		n--
		switch {
		case n >= 0:
			return 0, nil
		case n == -1:
			return o.size / 2, err
		}
		return 0, err
	}
}

func (d *disk) operations() []operation {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.done)
}

func (d *disk) count(kind string) int {
	n := 0
	for _, o := range d.operations() {
		if o.kind == kind {
			n++
		}
	}
	return n
}

// crash returns the disk after a power failure: of the unsynced data, each sector and each name
// survives with probability keep.
func (d *disk) crash(rng *rand.Rand, keep float64) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := newDisk()
	survivors := map[*inode]*inode{}
	survivor := func(i *inode) *inode {
		if survivors[i] == nil {
			data := i.surviving(rng, keep)
			survivors[i] = &inode{data, bytes.Clone(data)}
		}
		return survivors[i]
	}
	all := maps.Clone(d.names)
	maps.Copy(all, d.durable)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		i, ok := d.durable[name]
		if rng.Float64() < keep {
			i, ok = d.names[name]
		}
		if ok {
			after.names[name] = survivor(i)
		}
	}
	after.durable = maps.Clone(after.names)
	return after
}

// kill returns the disk after the process was killed: all written data can be read, and unsynced
// data can still be lost.
func (d *disk) kill() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := newDisk()
	copies := map[*inode]*inode{}
	for _, names := range []struct{ from, to map[string]*inode }{{d.names, after.names}, {d.durable, after.durable}} {
		for name, i := range names.from {
			if copies[i] == nil {
				copies[i] = &inode{bytes.Clone(i.data), bytes.Clone(i.synced)}
			}
			names.to[name] = copies[i]
		}
	}
	return after
}

func (i *inode) surviving(rng *rand.Rand, keep float64) []byte {
	size := len(i.synced)
	if rng.Float64() < keep {
		size = len(i.data)
	} else if more := len(i.data) - size; more > 0 && rng.Float64() < keep {
		size += rng.IntN(more)
	}
	data := make([]byte, size)
	for at := 0; at < size; at += journal.SectorBytes {
		from := i.synced
		if rng.Float64() < keep {
			from = i.data
		}
		if at < len(from) {
			copy(data[at:min(at+journal.SectorBytes, size)], from[at:])
		}
	}
	return data
}

// clone returns a copy with all data synced, on which the journal is not open.
func (d *disk) clone() *disk {
	return d.crash(rand.New(rand.NewPCG(1, 1)), 1)
}

// files returns the content of each file.
func (d *disk) files() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string][]byte{}
	for name, i := range d.names {
		all[filepath.Base(name)] = bytes.Clone(i.data)
	}
	return all
}

// content returns the content of a file, which the caller may change.
func (d *disk) content(name string) *[]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &d.names[filepath.Join("dir", name)].data
}

func (d *disk) remove(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.names, filepath.Join("dir", name))
}

func (d *disk) put(name string, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[filepath.Join("dir", name)] = &inode{data: data}
}

func (d *disk) MkdirAll(string) error { return nil }

type unlocker func()

func (u unlocker) Close() error {
	u()
	return nil
}

func (d *disk) Lock(name string) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locked[name] {
		return nil, journal.ErrLocked
	}
	d.locked[name] = true
	return unlocker(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.locked, name)
	}), nil
}

func (d *disk) List(dir string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for name := range d.names {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	return names, nil
}

func (d *disk) Create(name string) (journal.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.beginLocked("create", name, 0); err != nil {
		return nil, err
	}
	i := &inode{}
	d.names[name] = i
	return &diskFile{d, i, name}, nil
}

func (d *disk) Open(name string) (journal.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, ok := d.names[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &diskFile{d, i, name}, nil
}

func (d *disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.beginLocked("rename", to, 0); err != nil {
		return err
	}
	d.names[to] = d.names[from]
	delete(d.names, from)
	return nil
}

func (d *disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.beginLocked("remove", name, 0); err != nil {
		return err
	}
	delete(d.names, name)
	return nil
}

func (d *disk) SyncDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.beginLocked("syncdir", dir, 0); err != nil {
		return err
	}
	d.durable = maps.Clone(d.names)
	return nil
}

type diskFile struct {
	d    *disk
	i    *inode
	name string
}

func (f *diskFile) ReadAt(b []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return bytes.NewReader(f.i.data).ReadAt(b, off)
}

func (f *diskFile) WriteAt(b []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	n, err := f.d.beginLocked("write", f.name, len(b))
	end := int(off) + n
	if missing := end - len(f.i.data); missing > 0 && n > 0 {
		f.i.data = append(f.i.data, make([]byte, missing)...)
	}
	copy(f.i.data[min(int(off), len(f.i.data)):], b[:n])
	return n, err
}

func (f *diskFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if _, err := f.d.beginLocked("truncate", f.name, 0); err != nil {
		return err
	}
	f.i.data = f.i.data[:size]
	return nil
}

func (f *diskFile) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if _, err := f.d.beginLocked("sync", f.name, 0); err != nil {
		return err
	}
	f.i.synced = bytes.Clone(f.i.data)
	return nil
}

func (f *diskFile) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return int64(len(f.i.data)), nil
}

func (*diskFile) Close() error { return nil }

// voidFiles writes nothing and takes no time.
type voidFiles struct{ journal.FS }

func (v *voidFiles) Create(name string) (journal.File, error) {
	f, err := v.FS.Create(name)
	return voidFile{f}, err
}

func (v *voidFiles) Open(name string) (journal.File, error) {
	f, err := v.FS.Open(name)
	return voidFile{f}, err
}

type voidFile struct{ journal.File }

func (voidFile) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }

func (voidFile) Sync() error { return nil }

// failRemoves makes every later removal of a file fail.
func (d *disk) failRemoves() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before = func(o operation) (int, error) {
		if o.kind == "remove" {
			return 0, errPower
		}
		return 0, nil
	}
}
