package benchmarks_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestStorageWrites measures how many counts a second are acknowledged from disk, in 1,000
// values of 200 bytes. A count reads its value, changes it and writes it back; "raw" only
// writes and syncs as many bytes, one value at a time.
//
// Not parallel: other work would be measured too.
func TestStorageWrites(t *testing.T) {
	const keys = 1_000
	s := newSheet("storage", "writers", "counts/s", "p50", "p99", "to dynamolite")
	stores := append(storages, storage{name: "bbolt Update", open: openBoltUpdate})
	opened := make([]keptStore, len(stores))
	for i := range stores {
		store, err := stores[i].open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer store.close()
		if err := store.load(0, keys); err != nil {
			t.Fatal(err)
		}
		opened[i] = store
	}
	for _, writers := range []int{1, 8, 64, 512} {
		var sides []*side
		for i, store := range opened {
			sides = append(sides, &side{name: stores[i].name, work: func() (burst, error) {
				return drive(writers, *sliceTime, func(random *rand.Rand) error { return store.count(random.IntN(keys)) })
			}})
		}
		ours := sides[0]
		if writers == 1 {
			sides = append(sides, newRaw(t, "raw", 1, valueBytes, true))
		}
		alternate(t, sides...)
		for _, side := range sides {
			s.row(side.name, strconv.Itoa(writers), perSecond(side.median(burst.rate)), latency(side.median(burst.p50)), latency(side.median(burst.p99)),
				side.to(ours, burst.rate).String())
		}
	}
	s.print(t, inSlices())
}

// TestStorageSize measures the disk space of many values of 200 bytes, after each was
// counted up twice on average, and the time to open them.
func TestStorageSize(t *testing.T) {
	const opens, writers = 5, 512
	n := *manyItems
	s := newSheet("storage", "values", "on disk per value", "overwritten in", "on disk per value", "opened again", "Open and first read")
	for _, storage := range storages {
		dir := t.TempDir()
		store, err := storage.open(dir)
		if err != nil {
			t.Fatal(err)
		}
		row := []string{storage.name, strconv.Itoa(n)}
		if err := store.load(0, n); err != nil {
			t.Fatal(err)
		}
		row = append(row, perSecond(onDisk(t, dir)/float64(n))+" B")
		begun := time.Now()
		countUp(t, store, writers, n, 2*n)
		row = append(row, latency(float64(time.Since(begun))), perSecond(onDisk(t, dir)/float64(n))+" B")
		if err := store.close(); err != nil {
			t.Fatal(err)
		}
		var took []float64
		for range opens {
			begun := time.Now()
			if store, err = storage.open(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := store.read(n - 1); err != nil {
				t.Fatal(err)
			}
			took = append(took, float64(time.Since(begun)))
			if err := store.close(); err != nil {
				t.Fatal(err)
			}
		}
		s.row(append(row, perSecond(onDisk(t, dir)/float64(n))+" B", latency(estimateOf(took).median))...)
	}
	s.print(t, "medians of 5 openings; the rest once")
}

// countUp counts up random values.
func countUp(t *testing.T, store keptStore, writers, keys, counts int) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range writers {
		random := rand.New(rand.NewPCG(uint64(w), 1)) //nolint:gosec // chooses keys
		wg.Go(func() {
			for i := w; i < counts; i += writers {
				if err := store.count(random.IntN(keys)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestStorageFootprint measures the size of a stripped program that opens a storage, writes
// and reads. It also counts the packages and modules that the storage adds to the standard
// library. For dynamolite it measures the journal: every storage needs the engine.
func TestStorageFootprint(t *testing.T) {
	s := newSheet("program with", "size", "beyond one without", "modules", "packages")
	var without int64
	for _, storage := range append([]storage{{name: "none"}}, storages...) {
		size, modules, packages := footprint(t, &storage)
		if without == 0 {
			without = size
		}
		s.row(storage.name+" "+storage.imported, kilobytes(size), kilobytes(size-without), strconv.Itoa(modules), strconv.Itoa(packages))
	}
	s.print(t, "stripped")
}

func kilobytes(n int64) string { return strconv.FormatInt(n/1000, 10) + " kB" }

// footprint builds a program that uses a storage. It builds it as a part of this project,
// which gives it access.
func footprint(t *testing.T, s *storage) (size int64, modules, packages int) {
	t.Helper()
	dir := t.TempDir()
	program := "package main\n\n"
	if s.imported != "" {
		program += "import storage " + strconv.Quote(s.imported) + "\n\n"
	}
	program += "func main() {" + s.use + "\n}\n"
	source, target := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(s.imported, "/internal/") {
		root = filepath.Join(filepath.Dir(root), "dynamolite")
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "footprint", "main.go"): source}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{source: []byte(program), filepath.Join(dir, "overlay.json"): overlay} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		args = append([]string{args[0], "-overlay=" + filepath.Join(dir, "overlay.json")}, args[1:]...)
		cmd := exec.CommandContext(t.Context(), "go", append(args, "./footprint")...)
		cmd.Dir, cmd.Stderr = root, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	run("build", "-ldflags=-s -w", "-o", target)
	info, err := os.Stat(target)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(run("list", "-deps", "-f", "{{if not .Standard}}{{.Module.Path}}{{end}}")) {
		if module := strings.TrimSpace(line); module != "" && !strings.HasPrefix(module, "github.com/zeroae/") {
			packages++
			seen[module] = true
		}
	}
	return info.Size(), len(seen), packages
}
