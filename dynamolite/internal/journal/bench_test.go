package journal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

// BenchmarkDurable measures the cost of an entry of 200 bytes on disk: of the bare system calls,
// and through the journal for a number of callers. Each caller waits for its entry before it
// appends the next. "entries/sync" shows how well they share syncs.
func BenchmarkDurable(b *testing.B) {
	entry := bytes.Repeat([]byte{7}, 200)
	for _, extended := range []bool{false, true} {
		b.Run("raw/extended="+strconv.FormatBool(extended), func(b *testing.B) { benchmarkRaw(b, extended) })
	}
	for _, writers := range []int{1, 8, 64} {
		b.Run("writers="+strconv.Itoa(writers), func(b *testing.B) {
			disk := &countingFiles{FS: journal.OSFiles()}
			j, err := journal.Open(b.TempDir(), journal.Options{}.On(disk), ignore)
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			var left atomic.Int64
			left.Store(int64(b.N))
			disk.syncs.Store(0)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range writers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						p, err := j.Append(entry, nil)
						if err == nil {
							err = j.Wait(p)
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/float64(disk.syncs.Load()), "entries/sync")
		})
	}
}

func benchmarkRaw(b *testing.B, extended bool) {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	rec, zero := bytes.Repeat([]byte{7}, 224), make([]byte, 1<<20)
	var end, size int64
	for b.Loop() {
		if _, err := f.WriteAt(rec, end); err != nil {
			b.Fatal(err)
		}
		end += int64(len(rec))
		if extended && end > size {
			if _, err := f.WriteAt(zero, end); err != nil {
				b.Fatal(err)
			}
			size = end + int64(len(zero))
		}
		if err := journal.SyncData(f); err != nil {
			b.Fatal(err)
		}
	}
}

// countingFiles counts syncs of files.
type countingFiles struct {
	journal.FS
	syncs atomic.Int64
}

func (c *countingFiles) Create(name string) (journal.File, error) {
	f, err := c.FS.Create(name)
	return &countingFile{f, c}, err
}

func (c *countingFiles) Open(name string) (journal.File, error) {
	f, err := c.FS.Open(name)
	return &countingFile{f, c}, err
}

type countingFile struct {
	journal.File
	files *countingFiles
}

func (f *countingFile) Sync() error {
	f.files.syncs.Add(1)
	return f.File.Sync()
}

// BenchmarkAppend measures the cost of placing an entry of 200 bytes without the disk.
func BenchmarkAppend(b *testing.B) {
	entry := bytes.Repeat([]byte{7}, 200)
	j, err := journal.Open("dir", journal.Options{}.On(&voidFiles{FS: newDisk()}), ignore)
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := j.Append(entry, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReplay reads a million entries of 200 bytes.
func BenchmarkReplay(b *testing.B) {
	const entries = 1_000_000
	dir := b.TempDir()
	j, err := journal.Open(dir, journal.Options{}, ignore)
	if err != nil {
		b.Fatal(err)
	}
	entry := bytes.Repeat([]byte{7}, 200)
	for range entries {
		if _, err := j.Append(entry, nil); err != nil {
			b.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(entries * int64(len(entry)))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		j, err := journal.Open(dir, journal.Options{}, func(journal.Entry) error { n++; return nil })
		if err != nil {
			b.Fatal(err)
		}
		if err := j.Close(); err != nil || n != entries {
			b.Fatalf("%d entries, %v", n, err)
		}
	}
}

func ignore(journal.Entry) error { return nil }
