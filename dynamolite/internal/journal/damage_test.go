package journal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

// tryOpen opens the journal on a disk, which may fail, and closes it.
func tryOpen(d *disk) (replayed, error) {
	var r replayed
	j, err := journal.Open("dir", small(d), r.load)
	if err != nil {
		return r, err
	}
	return r, j.Close()
}

// mustBeDamaged checks that Open reports damage and changes nothing.
func mustBeDamaged(tb testing.TB, what string, d *disk) (replayed, *journal.DamagedError) {
	tb.Helper()
	before := d.files()
	got, err := tryOpen(d)
	damage, ok := errors.AsType[*journal.DamagedError](err)
	if !ok || !errors.Is(err, journal.ErrDamaged) {
		tb.Fatalf("%s: %v, and the log is %q", what, err, got.Log)
	}
	if !maps.EqualFunc(before, d.files(), bytes.Equal) {
		tb.Fatalf("%s: files were changed", what)
	}
	return got, damage
}

// isPrefix reports whether the entries are the first of all.
func isPrefix(entries, all []string) bool {
	return len(entries) <= len(all) && slices.Equal(entries, all[:len(entries)])
}

// A segment that is cut off anywhere in its last entries ends before the first incomplete entry,
// and can be appended to.
func TestTornTailAtEveryByte(t *testing.T) {
	t.Parallel()
	d := newDisk()
	j, _ := open(t, journal.Options{SegmentBytes: 4 << 10}.On(d))
	all := []string{"one", strings.Repeat("two", 200), "", "four\x00"}
	for _, e := range all {
		add(t, j, e)
	}
	closed(t, j)
	whole := d.files()[journal.SegmentName(1)]
	ends := []int{journal.FileHeaderBytes}
	for _, e := range all {
		ends = append(ends, ends[len(ends)-1]+journal.RecordOverhead+len(e))
	}
	whole = whole[:ends[len(ends)-1]]
	for cut := range len(whole) + 1 {
		var logged bytes.Buffer
		after := newDisk()
		after.put(journal.SegmentName(1), bytes.Clone(whole[:cut]))
		if 0 < cut && cut < journal.FileHeaderBytes {
			mustBeDamaged(t, fmt.Sprintf("cut to %d bytes", cut), after)
			continue
		}
		keeps := max(0, sortedIndex(ends, cut))
		o := small(after)
		o.Logger = textLogger(&logged)
		j, got := open(t, o)
		if !slices.Equal(got.Log, all[:keeps]) {
			t.Fatalf("cut to %d bytes, the log is %q", cut, got.Log)
		}
		boundary := slices.Contains(ends, cut)
		if warned := strings.Contains(logged.String(), "level=WARN"); warned == boundary {
			t.Fatalf("cut to %d bytes, and this was logged: %s", cut, logged.String())
		}
		if !boundary && cut > 0 && !strings.Contains(logged.String(), fmt.Sprintf("file=dir/%s offset=%d bytes=", journal.SegmentName(1), ends[keeps])) {
			t.Fatalf("cut to %d bytes, and this was logged: %s", cut, logged.String())
		}
		add(t, j, "more")
		closed(t, j)
		if got := replay(t, after); !slices.Equal(got.Log, append(slices.Clone(all[:keeps]), "more")) {
			t.Fatalf("cut to %d bytes, appended, and the log is %q", cut, got.Log)
		}
	}
}

// sortedIndex returns the index of the last element that is at most x.
func sortedIndex(sorted []int, x int) int {
	i, found := slices.BinarySearch(sorted, x)
	if !found {
		i--
	}
	return i
}

// A crash may lose any sectors of the last group: all entries before the group are there, and of
// the group a beginning.
func TestLostSectors(t *testing.T) {
	t.Parallel()
	before := []string{"one", strings.Repeat("2", 700)}
	group := []string{strings.Repeat("3", 100), strings.Repeat("4", 1500), "5", "6", strings.Repeat("7", 800), "8"}
	d := newDisk()
	j, _ := open(t, journal.Options{SegmentBytes: 4 << 10}.On(d))
	add(t, j, before[0])
	writes := d.count("write")
	addGroup(t, d, j, before[1], group...)
	if d.count("write") != writes+2 {
		t.Fatal("the group was not written at one go")
	}
	closed(t, j)
	content := *d.content(journal.SegmentName(1))
	from := journal.FileHeaderBytes
	for _, e := range before {
		from += journal.RecordOverhead + len(e)
	}
	first, last := from/journal.SectorBytes, lastByte(content)/journal.SectorBytes
	if last-first != 5 {
		t.Fatalf("the group has sectors %d to %d", first, last)
	}
	all := append(slices.Clone(before), group...)
	for lost := range 1 << (last - first + 1) {
		damaged := bytes.Clone(content)
		for s := first; s <= last; s++ {
			if lost&(1<<(s-first)) != 0 {
				clear(damaged[max(from, s*journal.SectorBytes) : (s+1)*journal.SectorBytes])
			}
		}
		after := newDisk()
		after.put(journal.SegmentName(1), damaged)
		got, err := tryOpen(after)
		if err != nil || !isPrefix(got.Log, all) || len(got.Log) < len(before) || lost == 0 && len(got.Log) != len(all) {
			t.Fatalf("sectors %b lost: %v, the log is %q", lost, err, got.Log)
		}
	}
}

// addGroup appends an entry, and the others while the first one is being synced: these are
// written together.
func addGroup(tb testing.TB, d *disk, j *journal.Journal, first string, others ...string) {
	tb.Helper()
	syncing, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.mu.Lock()
	d.before = func(o operation) (int, error) {
		if o.kind == "sync" {
			once.Do(func() { close(syncing); <-release })
		}
		return 0, nil
	}
	d.mu.Unlock()
	if _, err := j.Append([]byte(first), nil); err != nil {
		tb.Fatal(err)
	}
	<-syncing
	for _, e := range others {
		if _, err := j.Append([]byte(e), nil); err != nil {
			tb.Fatal(err)
		}
	}
	close(release)
	if err := j.Wait(j.Appended()); err != nil {
		tb.Fatal(err)
	}
}

// lastByte returns the offset after the last byte that is not zero.
func lastByte(b []byte) int { return len(bytes.TrimRight(b, "\x00")) }

// sample returns a disk with all kinds of files: a checkpoint, and two segments of two groups
// each.
func sample(tb testing.TB) (*disk, replayed) {
	tb.Helper()
	d := newDisk()
	j, _ := open(tb, small(d))
	add(tb, j, "1", "2")
	if err := image(j, "a", "", "b"); err != nil {
		tb.Fatal(err)
	}
	want := replayed{Checkpoint: 2, Image: []string{"a", "", "b"}}
	for _, e := range []string{"three", strings.Repeat("4", 600), "five", "six\x00\x00"} {
		add(tb, j, e)
		want.Log = append(want.Log, e)
	}
	closed(tb, j)
	mustEqual(tb, "files", []string{journal.CheckpointName(2), journal.SegmentName(3), journal.SegmentName(5), journal.NewestName}, sortedNames(d))
	return d, want
}

// A changed bit is damage. Only in the last group of all may it look like the result of a crash,
// and then all earlier entries are there. No entry ever differs from the appended one.
func TestEveryBit(t *testing.T) {
	t.Parallel()
	pristine, want := sample(t)
	for _, name := range sortedNames(pristine) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := pristine.files()[name]
			end := lastByte(content)
			torn := 0
			for bit := range 8 * len(content) {
				if bit/8 > end+64 && bit%8 != bit/8%8 {
					continue // far in the zeros, one bit of a byte is enough
				}
				d := pristine.clone()
				(*d.content(name))[bit/8] ^= 1 << (bit % 8)
				before := d.files()
				got, err := tryOpen(d)
				if !isPrefix(got.Log, want.Log) || !isPrefix(got.Image, want.Image) {
					t.Fatalf("bit %d: the journal is %+v", bit, got)
				}
				if errors.Is(err, journal.ErrDamaged) {
					if !maps.EqualFunc(before, d.files(), bytes.Equal) {
						t.Fatalf("bit %d: damaged, and files were changed", bit)
					}
					continue
				}
				lastGroup := len(want.Log) - 1
				if err != nil || name != journal.SegmentName(5) || len(got.Log) < lastGroup {
					t.Fatalf("bit %d of %d: %v, the log is %q", bit, 8*end, err, got.Log)
				}
				if len(got.Log) == lastGroup {
					torn++
				}
			}
			if torn != 0 {
				t.Errorf("%d bits pass for the end of the log", torn)
			}
		})
	}
}

// Damage that a crash cannot cause is reported, with its place and the remedy.
func TestDamage(t *testing.T) {
	t.Parallel()
	checkpoint, first, last := journal.CheckpointName(2), journal.SegmentName(3), journal.SegmentName(5)
	other, _ := sample(t)
	cases := []struct {
		name   string
		damage func(d *disk)
		file   string
		offset int64
		reason string
		remedy string
	}{
		{
			"no checkpoint", func(d *disk) { d.remove(checkpoint) },
			journal.SegmentName(1), 0, "the oldest segment begins with entry 3", "restore the checkpoint from a copy",
		},
		{
			"no first segment", func(d *disk) { d.remove(first) },
			first, 0, "entries 3 to 4 are missing", "loses all entries after 2",
		},
		{
			"no segment", func(d *disk) { d.remove(first); d.remove(last) },
			first, 0, "the segment after the newest checkpoint is missing", "loses all entries after 2",
		},
		{
			"no last segment", func(d *disk) { d.remove(last) },
			last, 0, "the newest segment is missing", "remove the file newest, which loses all entries after 4",
		},
		{
			"no file but the newest", func(d *disk) { d.remove(checkpoint); d.remove(first); d.remove(last) },
			last, 0, "the newest segment is missing", "loses all entries after 0",
		},
		{
			"another journal's newest", func(d *disk) { d.put(journal.NewestName, other.files()[journal.NewestName]) },
			journal.NewestName, 0, "belongs to another journal", "remove this file",
		},
		{
			"newest cut off", func(d *disk) { shorten(d, journal.NewestName, 31) },
			journal.NewestName, 0, "shorter than its header", "make sure that no log file is missing",
		},
		{
			"newest too long", func(d *disk) { c := d.content(journal.NewestName); *c = append(*c, 0) },
			journal.NewestName, 0, "longer than it was written", "make sure that no log file is missing",
		},
		{
			"segment ends early", func(d *disk) { shorten(d, first, 32+25+5) },
			first, 32 + 25 + 5, "entries 4 to 4 are missing", "loses all entries after 3",
		},
		{
			"entry cut off, not in the last segment", func(d *disk) { shorten(d, first, 100) },
			first, 32 + 25 + 5, "a later segment follows", "cut this file to 62 bytes and move the later segments and the file newest away, which loses all entries after 3",
		},
		{
			"segments overlap", func(d *disk) { d.put(journal.SegmentName(4), d.files()[first]) },
			first, 32 + 25 + 5 + 25 + 600, "the next segment begins with 4", "restore the directory",
		},
		{
			"other version", func(d *disk) { (*d.content(last))[8] = 2 },
			last, 0, "format version 2, this program reads version 1", "cut this file to 0 bytes, which loses all entries after 4",
		},
		{
			"renamed", func(d *disk) { d.put(last, d.files()[first]) },
			last, 0, "inside, its position is 3", "restore",
		},
		{
			"no journal's file", func(d *disk) { d.put(last, bytes.Repeat([]byte("text"), 100)) },
			last, 0, "not what its name says", "restore",
		},
		{
			"short header", func(d *disk) { shorten(d, last, 31) },
			last, 0, "shorter than its header", "restore",
		},
		{
			"another journal's", func(d *disk) { d.put(last, other.files()[last]) },
			last, 0, "belongs to another journal", "restore",
		},
		{
			"garbage after the last entry", func(d *disk) { copy((*d.content(last))[32+25+4+25+5:], "some garbage after it, more than a header") },
			last, 32 + 25 + 4 + 25 + 5, "entry's header does not match", "cut this file to 91 bytes, which loses all entries after 6",
		},
		{
			"an entry twice", func(d *disk) { c := *d.content(last); copy(c[91:], c[61:91]) },
			last, 91, "entry 6 stands where 7 belongs", "restore",
		},
		{
			"a sector of zeros, and a later group", func(d *disk) { clear((*d.content(last))[32 : 32+25+4]) },
			last, 32, "a later entry shows that it was complete once", "cut this file to 32 bytes",
		},
		{
			"checkpoint cut off", func(d *disk) { shorten(d, checkpoint, 60) },
			checkpoint, 58, "past the end", "this file alone holds the entries up to 2",
		},
		{
			"checkpoint without its end", func(d *disk) { shorten(d, checkpoint, 32+3*25+2) },
			checkpoint, 32 + 3*25 + 2, "past the end", "restore",
		},
		{
			"checkpoint too long", func(d *disk) { *d.content(checkpoint) = append(*d.content(checkpoint), 0) },
			checkpoint, 32 + 3*25 + 2, "does not end where its last record says", "restore",
		},
		{
			"checkpoint with an entry missing", func(d *disk) {
				c := d.content(checkpoint)
				*c = slices.Delete(*c, 32+26, 32+26+25)
			},
			checkpoint, 32 + 26, "entry 3 stands where 2 belongs", "restore",
		},
		{
			"checkpoint with the last entry missing", func(d *disk) {
				c := d.content(checkpoint)
				*c = slices.Delete(*c, 32+26+25, 32+26+25+26)
			},
			checkpoint, 32 + 26 + 25, "does not end where its last record says", "restore",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, want := sample(t)
			c.damage(d)
			got, damage := mustBeDamaged(t, c.name, d)
			if damage.File != "dir/"+c.file || damage.Offset != c.offset {
				t.Errorf("at %s, %d", damage.File, damage.Offset)
			}
			if !strings.Contains(damage.Reason, c.reason) || !strings.Contains(damage.Remedy, c.remedy) {
				t.Error(damage)
			}
			if !isPrefix(got.Log, want.Log) || !isPrefix(got.Image, want.Image) {
				t.Errorf("the journal is %+v", got)
			}
		})
	}
}

func shorten(d *disk, name string, size int) {
	c := d.content(name)
	*c = (*c)[:size]
}

// The remedies in an error work, at the stated cost.
func TestRemedies(t *testing.T) {
	t.Parallel()
	first, last := journal.SegmentName(3), journal.SegmentName(5)
	cases := []struct {
		name   string
		damage func(d *disk)
		remedy func(d *disk, damage *journal.DamagedError)
		left   int // entries of the log
	}{
		{
			"cut the last segment", func(d *disk) { (*d.content(last))[62] ^= 1 },
			func(d *disk, e *journal.DamagedError) { shorten(d, last, int(e.Offset)) }, 3,
		},
		{
			"cut it to nothing", func(d *disk) { (*d.content(last))[1] ^= 1 },
			func(d *disk, e *journal.DamagedError) { shorten(d, last, int(e.Offset)) }, 2,
		},
		{
			"cut a segment, move the later", func(d *disk) { (*d.content(first))[80] ^= 1 },
			func(d *disk, e *journal.DamagedError) {
				shorten(d, first, int(e.Offset))
				d.remove(last)
				d.remove(journal.NewestName)
			}, 1,
		},
		{
			"cut the first to nothing, move the later", func(d *disk) { (*d.content(first))[1] ^= 1 },
			func(d *disk, e *journal.DamagedError) {
				shorten(d, first, int(e.Offset))
				d.remove(last)
				d.remove(journal.NewestName)
			}, 0,
		},
		{
			"move the later after a gap", func(d *disk) { shorten(d, first, 62) },
			func(d *disk, _ *journal.DamagedError) { d.remove(last); d.remove(journal.NewestName) }, 1,
		},
		{
			"make an empty first segment", func(d *disk) { d.remove(first); d.remove(last) },
			func(d *disk, _ *journal.DamagedError) { d.put(first, nil); d.remove(journal.NewestName) }, 0,
		},
		{
			"make an empty first segment, move the later", func(d *disk) { d.remove(first) },
			func(d *disk, _ *journal.DamagedError) {
				d.put(first, nil)
				d.remove(last)
				d.remove(journal.NewestName)
			}, 0,
		},
		{
			"go on without the newest segment", func(d *disk) { d.remove(last) },
			func(d *disk, _ *journal.DamagedError) { d.remove(journal.NewestName) }, 2,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, want := sample(t)
			c.damage(d)
			_, damage := mustBeDamaged(t, "before the remedy", d)
			c.remedy(d, damage)
			want.Log = want.Log[:c.left]
			price := fmt.Sprintf("which loses all entries after %d", 2+c.left)
			if !strings.Contains(damage.Remedy, price) {
				t.Errorf("the remedy says %q, the price is: %s", damage.Remedy, price)
			}
			j, got := open(t, small(d))
			if got.Checkpoint != 2 || !slices.Equal(got.Log, want.Log) {
				t.Fatalf("%s: the journal is %+v", damage, got)
			}
			add(t, j, "more")
			closed(t, j)
			if got := replay(t, d); !slices.Equal(got.Log, append(want.Log, "more")) {
				t.Errorf("after it, the log is %q", got.Log)
			}
		})
	}
}

// A damaged checkpoint is not needed if its predecessor still exists.
func TestOlderCheckpoint(t *testing.T) {
	t.Parallel()
	d := newDisk()
	j, _ := open(t, small(d))
	add(t, j, "1")
	if err := image(j, "a"); err != nil {
		t.Fatal(err)
	}
	add(t, j, "2")
	d.failRemoves()
	if err := image(j, "b"); err != nil {
		t.Fatal(err)
	}
	add(t, j, "3")
	closed(t, j)
	d = d.clone()
	newest := journal.CheckpointName(2)
	(*d.content(newest))[50] ^= 1
	_, damage := mustBeDamaged(t, "the newest checkpoint", d)
	if !strings.Contains(damage.Remedy, "or move this file away") {
		t.Error(damage)
	}
	d.remove(newest)
	mustEqual(t, "replay", replayed{Checkpoint: 1, Image: []string{"a"}, Log: []string{"2", "3"}}, replay(t, d))
}

// Files with names that the journal does not use are left alone.
func TestForeignNames(t *testing.T) {
	t.Parallel()
	d, want := sample(t)
	d.put("00000000000000000003.log.damaged", []byte("kept by the operator"))
	d.put("3.log", nil)
	d.put("00000000000000000000.log", nil)
	d.put("notes", nil)
	d.put(journal.SegmentName(9)+".tmp", nil)
	mustEqual(t, "replay", want, replay(t, d))
	mustEqual(t, "files", []string{
		"00000000000000000000.log", journal.CheckpointName(2), journal.SegmentName(3), "00000000000000000003.log.damaged",
		journal.SegmentName(5), "3.log", journal.NewestName, "notes",
	}, sortedNames(d))
}

// An error from load ends Open, and nothing is changed.
func TestLoadFails(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"b", "five"} {
		d, _ := sample(t)
		before := d.files()
		refused := errors.New("refused")
		_, err := journal.Open("dir", small(d), func(e journal.Entry) error {
			if string(e.Data) == at {
				return refused
			}
			return nil
		})
		if !errors.Is(err, refused) || !maps.EqualFunc(before, d.files(), bytes.Equal) {
			t.Errorf("%q: %v", at, err)
		}
		replay(t, d) // the directory is not locked
	}
}

// FuzzReplay opens arbitrary bytes as a segment and as a checkpoint. It must not panic or use
// more memory than the file has bytes. Files that Open accepts once, it accepts twice.
func FuzzReplay(f *testing.F) {
	d, _ := sample(f)
	files := d.files()
	early := newDisk()
	j, _ := open(f, journal.Options{}.On(early))
	add(f, j, "1", "", strings.Repeat("3", 600))
	closed(f, j)
	f.Add(early.files()[journal.SegmentName(1)][journal.FileHeaderBytes:800], true)
	f.Add(files[journal.CheckpointName(2)][journal.FileHeaderBytes:], false)
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, content []byte, segment bool) {
		d := newDisk()
		if segment {
			d.put(journal.SegmentName(1), repaired(files[journal.SegmentName(3)], content, 1))
		} else {
			d.put(journal.CheckpointName(1), repaired(files[journal.CheckpointName(2)], content, 1))
			d.put(journal.SegmentName(2), nil)
		}
		most := 0
		var first replayed
		j, err := journal.Open("dir", small(d), func(e journal.Entry) error {
			most = max(most, cap(e.Data))
			return first.load(e)
		})
		if most > journal.FileHeaderBytes+len(content) {
			t.Errorf("an entry has %d bytes, the file %d", most, len(content))
		}
		if err != nil {
			return
		}
		closed(t, j)
		if second := replay(t, d); !slices.Equal(first.Log, second.Log) || !slices.Equal(first.Image, second.Image) {
			t.Errorf("first %+v, then %+v", first, second)
		}
	})
}

// repaired makes a file of arbitrary content that gets past the header, and past the checksums as
// far as its lengths allow.
func repaired(like, content []byte, position uint64) []byte {
	b := append(bytes.Clone(like[:journal.FileHeaderBytes]), content...)
	binary.LittleEndian.PutUint64(b[24:], position)
	binary.LittleEndian.PutUint32(b[12:], crc32.Update(checksum(b[:12]), castagnoli, b[16:journal.FileHeaderBytes]))
	for r := b[journal.FileHeaderBytes:]; len(r) >= journal.RecordHeaderBytes; {
		length := int(binary.LittleEndian.Uint32(r[8:]))
		if end := journal.RecordOverhead + length; end <= len(r) {
			binary.LittleEndian.PutUint32(r[4:], checksum(r[journal.RecordHeaderBytes:end-1]))
			binary.LittleEndian.PutUint32(r, checksum(r[4:journal.RecordHeaderBytes]))
			r = r[end:]
			continue
		}
		binary.LittleEndian.PutUint32(r, checksum(r[4:journal.RecordHeaderBytes]))
		break
	}
	return b
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
