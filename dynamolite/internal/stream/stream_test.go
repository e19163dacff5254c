package stream_test

import (
	"errors"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
)

// everything is the durable position of a database in memory.
const everything = ^uint64(0)

// start returns an iterator from the trim horizon of a shard.
func start[R any](tb testing.TB, s *stream.Stream[R], shard string, durable uint64, now time.Time) stream.Iterator {
	tb.Helper()
	it, err := s.Find("s", shard, stream.Start{From: stream.TrimHorizon}, durable, now)
	if err != nil {
		tb.Fatal(err)
	}
	return it
}

// drain reads a shard from its trim horizon to its current end.
func drain[R any](tb testing.TB, s *stream.Stream[R], shard string, durable uint64, now time.Time) (records []stream.Record[R], closed bool) {
	tb.Helper()
	it := start(tb, s, shard, durable, now)
	for {
		page, next, more, err := s.Read(it, 1000, durable, now)
		if err != nil {
			tb.Fatal(err)
		}
		records = append(records, page...)
		if !more || len(page) == 0 {
			return records, !more
		}
		it = next
	}
}

func TestShardIDs(t *testing.T) {
	t.Parallel()
	shape := regexp.MustCompile(`^shardId-\d{20}-[0-9a-f]{8}$`)
	ids := func(seed string, restartAt int) (ids []string) {
		s := stream.New[string](seed, epoch, stream.Options{Roll: time.Millisecond})
		for i := range 10 {
			if i == restartAt {
				var err error
				if s, err = stream.Restore[string](s.State(), stream.Options{}); err != nil {
					t.Fatal(err)
				}
			}
			s.Append(0, record{Position: uint64(i + 1), At: epoch.Add(time.Duration(i) * time.Millisecond)})
		}
		for _, sh := range s.Shards(everything, epoch) {
			ids = append(ids, sh.ID)
		}
		return ids
	}
	got := ids("one", -1)
	if len(got) != 40 {
		t.Fatalf("%d shards after 9 rolls of 4", len(got))
	}
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != 40 {
		t.Errorf("not sorted by age, or not unique: %q", got)
	}
	for _, id := range got {
		if !shape.MatchString(id) {
			t.Errorf("%q does not look like a shard's id", id)
		}
	}
	for _, restart := range []int{-1, 5} {
		if again := ids("one", restart); !slices.Equal(got, again) {
			t.Errorf("the same appends make other shards: %q, and with a restart at %d %q", got, restart, again)
		}
	}
	if other := ids("two", -1); got[0] == other[0] {
		t.Errorf("streams of other seeds share the shard %s", got[0])
	}
}

// A record is readable for 24 hours, and a closed shard is listed for as long after its closing.
func TestRetention(t *testing.T) {
	t.Parallel()
	s := stream.New[string]("seed", epoch, stream.Options{Shards: 1})
	const day = 24 * time.Hour
	first := s.Shards(everything, epoch)[0].ID
	s.Append(0, record{Position: 5, At: epoch, Value: "a"})
	s.Append(0, record{Position: 6, At: epoch.Add(time.Hour), Value: "b"})
	closing := epoch.Add(5 * time.Hour)
	s.Append(0, record{Position: 9, At: closing, Value: "c"})

	want := []stream.Shard{{ID: first, Start: 1, End: 6}, {ID: s.Shards(everything, epoch)[1].ID, Parent: first, Start: 9}}
	if d := cmp.Diff(want, s.Shards(everything, closing)); d != "" {
		t.Errorf("shards (-want +got):\n%s", d)
	}
	values := func(at time.Duration) (values []string) {
		for _, sh := range s.Shards(everything, epoch.Add(at)) {
			records, _ := drain(t, s, sh.ID, everything, epoch.Add(at))
			for _, r := range records {
				values = append(values, r.Value)
			}
		}
		return values
	}
	old := start(t, s, first, everything, epoch.Add(day-time.Millisecond))
	for _, step := range []struct {
		at     time.Duration
		values []string
		shards int
	}{
		{day - time.Millisecond, []string{"a", "b", "c"}, 2},
		{day, []string{"b", "c"}, 2},
		{day + time.Hour, []string{"c"}, 2},
		{day + 5*time.Hour - time.Millisecond, []string{"c"}, 2},
		{day + 5*time.Hour, nil, 1},
	} {
		if got := values(step.at); !slices.Equal(got, step.values) {
			t.Errorf("after %v there is %q, want %q", step.at, got, step.values)
		}
		if got := len(s.Shards(everything, epoch.Add(step.at))); got != step.shards {
			t.Errorf("after %v there are %d shards, want %d", step.at, got, step.shards)
		}
		if step.at == day {
			if _, _, _, err := s.Read(old, 1, everything, epoch.Add(day)); !errors.Is(err, stream.ErrTrimmed) {
				t.Errorf("a reader whose next record has expired: %v", err)
			}
		}
	}
	if _, err := s.Find("s", first, stream.Start{}, everything, epoch.Add(2*day)); !errors.Is(err, stream.ErrNoShard) {
		t.Errorf("a shard that is gone: %v", err)
	}
}

// A closed stream has expired a day after its closing.
func TestExpired(t *testing.T) {
	t.Parallel()
	s := stream.New[string]("seed", epoch, stream.Options{})
	if s.Expired(epoch.Add(1000 * time.Hour)) {
		t.Error("an open stream has expired")
	}
	s.Close(0, epoch.Add(time.Hour))
	for at, want := range map[time.Duration]bool{0: false, 25*time.Hour - time.Millisecond: false, 25 * time.Hour: true} {
		if got := s.Expired(epoch.Add(at)); got != want {
			t.Errorf("after %v: expired %v", at, got)
		}
	}
}

// An iterator is valid for 15 minutes, and each read returns a new one.
func TestIteratorLifetime(t *testing.T) {
	t.Parallel()
	s := stream.New[string]("seed", epoch, stream.Options{})
	first := start(t, s, s.Shards(everything, epoch)[0].ID, everything, epoch)
	it, now := first, epoch
	for range 5 {
		now = now.Add(15 * time.Minute)
		var err error
		if _, it, _, err = s.Read(it, 1, everything, now); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, _, err := s.Read(first, 1, everything, epoch.Add(15*time.Minute+time.Millisecond)); !errors.Is(err, stream.ErrExpiredIterator) {
		t.Errorf("after 15 minutes: %v", err)
	}
}

// The kept records stay within the limit, the oldest go first, and their memory is released.
func TestMemoryBound(t *testing.T) {
	t.Parallel()
	const size, kept = 1000 - stream.Overhead, 10
	s := stream.New[*[1 << 10]byte]("seed", epoch, stream.Options{MaxBytes: kept * 1000})
	var values []weak.Pointer[[1 << 10]byte]
	for i := range uint64(500) {
		v := new([1 << 10]byte)
		values = append(values, weak.Make(v))
		s.Append(uint32(i*7), stream.Record[*[1 << 10]byte]{Position: i + 1, At: epoch, Size: size, Value: v})
	}
	var positions []uint64
	for _, sh := range s.Shards(everything, epoch) {
		records, _ := drain(t, s, sh.ID, everything, epoch)
		for _, r := range records {
			positions = append(positions, r.Position)
		}
	}
	slices.Sort(positions)
	if len(positions) != kept || positions[0] != 500-kept+1 {
		t.Errorf("kept %d, want the last %d", positions, kept)
	}
	runtime.GC()
	held := 0
	for _, v := range values {
		if v.Value() != nil {
			held++
		}
	}
	if held > kept {
		t.Errorf("%d values are held in memory, of which %d can be read", held, kept)
	}
	runtime.KeepAlive(s)

	s.Append(0, stream.Record[*[1 << 10]byte]{Position: 501, At: epoch, Size: 1 << 20})
	if records, _ := drain(t, s, s.Shards(everything, epoch)[0].ID, everything, epoch); len(records) != 1 {
		t.Errorf("of a record that is larger than the bound, %d are kept", len(records))
	}
}

// The latest iterator is issued during a write. A crash undoes that write, and the next one gets
// its position: the reader must see it.
func TestLatestSeesWhatTakesThePlaceOfTheUndone(t *testing.T) {
	t.Parallel()
	made := func(last string) *stream.Stream[string] {
		s := stream.New[string]("seed", epoch, stream.Options{Shards: 1})
		s.Append(0, record{Position: 1, At: epoch, Value: "durable"})
		s.Append(0, record{Position: 2, At: epoch, Value: last})
		return s
	}
	before := made("undone")
	it, err := before.Find("s", before.Shards(1, epoch)[0].ID, stream.Start{From: stream.Latest}, 1, epoch)
	if err != nil {
		t.Fatal(err)
	}
	page, it, _, err := before.Read(it, 10, 1, epoch)
	if len(page) != 0 || err != nil {
		t.Errorf("read %v, %v of what is not durable", page, err)
	}
	page, _, _, err = made("in its place").Read(it, 10, 2, epoch)
	if err != nil || len(page) != 1 || page[0].Value != "in its place" {
		t.Errorf("read %v, %v after the crash", page, err)
	}
}

// Until the write that rolled the shards is durable, a reader sees neither the write nor the
// roll.
func TestRollIsSeenWhenDurable(t *testing.T) {
	t.Parallel()
	s := stream.New[string]("seed", epoch, stream.Options{Shards: 1})
	now := epoch.Add(5 * time.Hour)
	s.Append(0, record{Position: 1, At: epoch})
	s.Append(0, record{Position: 2, At: now})
	child := s.Shards(2, now)[1].ID
	if got := s.Shards(1, now); len(got) != 1 || got[0].End != 0 {
		t.Errorf("shards %+v before it is durable", got)
	}
	if _, err := s.Find("s", child, stream.Start{}, 1, now); !errors.Is(err, stream.ErrNoShard) {
		t.Errorf("the child is found before it is durable: %v", err)
	}
	for durable, closed := range []bool{1: false, 2: true} {
		if durable == 0 {
			continue
		}
		if records, ended := drain(t, s, s.Shards(2, now)[0].ID, uint64(durable), now); len(records) != 1 || ended != closed {
			t.Errorf("durable to %d: %v, ended %v", durable, records, ended)
		}
	}
}

func TestAppendRefusesToGoBack(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*stream.Stream[string]){
		"again":  func(s *stream.Stream[string]) { s.Append(0, record{Position: 7, At: epoch}) },
		"before": func(s *stream.Stream[string]) { s.Append(0, record{Position: 6, At: epoch}) },
		"closed": func(s *stream.Stream[string]) {
			s.Close(8, epoch)
			s.Append(0, record{Position: 9, At: epoch})
		},
	} {
		s := stream.New[string]("seed", epoch, stream.Options{})
		s.Append(0, record{Position: 7, At: epoch})
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the record was taken, or lost unseen", name)
				}
			}()
			do(s)
		}()
	}
}

// written is a record of the tests with several writers: the n-th of its writer.
type written struct{ writer, n int }

// Sixteen writers use sixteen keys, shards roll all the time, and readers follow the children
// after their parents. Each reader gets every record, those of one key in order.
func TestReadersFollowShards(t *testing.T) {
	t.Parallel()
	const writers, each, readers = 16, 300, 3
	s := stream.New[written]("seed", epoch, stream.Options{Roll: 10 * time.Millisecond})
	var order sync.Mutex // the database's one order of writes
	var last, durable atomic.Uint64
	at := func(position uint64) time.Time { return epoch.Add(time.Duration(position) * time.Millisecond / 4) }
	var writing, reading sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			for n := range each {
				order.Lock()
				position := last.Add(1)
				s.Append(uint32(writer), stream.Record[written]{Position: position, At: at(position), Value: written{writer, n}})
				if position%8 == 0 {
					durable.Store(position)
				}
				order.Unlock()
			}
		})
	}
	for range readers {
		reading.Go(func() { follow(t, s, &durable, at(writers*each), writers, writers*each) })
	}
	writing.Wait()
	durable.Store(last.Load())
	s.Close(last.Load()+1, at(last.Load()))
	durable.Add(1)
	reading.Wait()
	if shards := len(s.Shards(everything, at(last.Load()))); shards < 400 {
		t.Errorf("the shards rolled to %d only", shards)
	}
}

// follow reads a stream to its end. It reads the children of a shard after the shard.
func follow(t *testing.T, s *stream.Stream[written], durable *atomic.Uint64, now time.Time, writers, all int) {
	t.Helper()
	done := map[string]bool{}
	reads := map[string]stream.Iterator{}
	next := make([]int, writers)
	got := 0
	for ended := false; !ended; runtime.Gosched() {
		ended = true
		for _, sh := range s.Shards(durable.Load(), now) {
			it, begun := reads[sh.ID]
			switch {
			case done[sh.ID]:
				continue
			case sh.Parent != "" && !done[sh.Parent]:
				continue
			case !begun:
				var err error
				if it, err = s.Find("s", sh.ID, stream.Start{From: stream.TrimHorizon}, durable.Load(), now); err != nil {
					t.Error(err)
					return
				}
			}
			page, after, more, err := s.Read(it, 50, durable.Load(), now)
			if err != nil {
				t.Error(err)
				return
			}
			reads[sh.ID], done[sh.ID], ended = after, !more, false
			for _, r := range page {
				if r.Value.n != next[r.Value.writer] {
					t.Errorf("of writer %d came %d, want %d", r.Value.writer, r.Value.n, next[r.Value.writer])
					return
				}
				next[r.Value.writer]++
				got++
			}
		}
	}
	if got != all {
		t.Errorf("read %d records of %d", got, all)
	}
}

// Writes and trimming continue while a stream is exported, and overtake the export. The restored
// stream has all records of its state, or reports them as trimmed.
func TestExportWhileAppending(t *testing.T) {
	t.Parallel()
	const before = 9000
	s := stream.New[string]("seed", epoch, stream.Options{Shards: 2, MaxBytes: before * stream.Overhead})
	at := func(position uint64) time.Time { return epoch.Add(time.Duration(position) * time.Millisecond) }
	last := uint64(0)
	add := func(n int) {
		for range n {
			last++
			s.Append(uint32(last), record{Position: last, At: at(last)})
		}
	}
	add(before)
	st := s.State()
	restored, err := stream.Restore[string](st, stream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Export(st, func(p stream.Page[string]) error {
		add(2600) // as many records are trimmed
		return restored.RestorePage(p)
	}); err != nil {
		t.Fatal(err)
	}
	now := at(2).Add(24 * time.Hour) // the very first records would now expire
	for i, sh := range restored.Shards(everything, now) {
		records, _ := drain(t, restored, sh.ID, everything, now)
		end := uint64(before - i) // of this shard
		first := end + 2          // if all records are trimmed
		if len(records) > 0 {
			first = records[0].Position
		}
		if n := (end + 2 - first) / 2; len(records) != int(n) || n > 1000 {
			t.Errorf("shard %d has %d records from %d to %d, want all of the last page", i, len(records), first, end)
		}
		for position := 2 - uint64(i); position < first; position += 200 {
			if _, err := restored.Find("s", sh.ID, stream.Start{From: stream.At, Position: position}, everything, now); !errors.Is(err, stream.ErrTrimmed) {
				t.Errorf("shard %d, before its first record, at %d: %v", i, position, err)
			}
		}
	}
}

func TestExportStopsAtAnError(t *testing.T) {
	t.Parallel()
	s := stream.New[string]("seed", epoch, stream.Options{})
	full := errors.New("disk full")
	calls := 0
	if err := s.Export(s.State(), func(stream.Page[string]) error { calls++; return full }); !errors.Is(err, full) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// A state or page that no stream has written is an error, and never a panic.
func TestRestoreRefusesDamage(t *testing.T) {
	t.Parallel()
	made := func() (stream.State, []stream.Page[string]) {
		s := stream.New[string]("seed", epoch, stream.Options{Shards: 2})
		s.Append(0, record{Position: 1, At: epoch})
		s.Append(0, record{Position: 2, At: epoch.Add(5 * time.Hour)})
		s.Append(0, record{Position: 3, At: epoch.Add(5 * time.Hour)})
		st := s.State()
		var pages []stream.Page[string]
		if err := s.Export(st, func(p stream.Page[string]) error { pages = append(pages, p); return nil }); err != nil {
			t.Fatal(err)
		}
		return st, pages
	}
	for name, damage := range map[string]func(*stream.State, []stream.Page[string]){
		"no shards":          func(st *stream.State, _ []stream.Page[string]) { st.Shards = nil },
		"an open one less":   func(st *stream.State, _ []stream.Page[string]) { st.Shards = st.Shards[:3] },
		"an open one more":   func(st *stream.State, _ []stream.Page[string]) { st.Shards[0].Closed = false },
		"closed, but open":   func(st *stream.State, _ []stream.Page[string]) { st.Closed = true },
		"no open shards":     func(st *stream.State, _ []stream.Page[string]) { st.Open = 0 },
		"never rolls":        func(st *stream.State, _ []stream.Page[string]) { st.Roll = 0 },
		"slots":              func(st *stream.State, _ []stream.Page[string]) { st.Shards[2].Slot = 1 },
		"ids":                func(st *stream.State, _ []stream.Page[string]) { st.Shards[1].ID = st.Shards[0].ID },
		"no start":           func(st *stream.State, _ []stream.Page[string]) { st.Shards[0].Start = 0 },
		"page of no shard":   func(_ *stream.State, pages []stream.Page[string]) { pages[0].Shard = 4 },
		"page below none":    func(_ *stream.State, pages []stream.Page[string]) { pages[0].Shard = -1 },
		"record too old":     func(_ *stream.State, pages []stream.Page[string]) { pages[2].Records[0].Position = 1 },
		"record too new":     func(_ *stream.State, pages []stream.Page[string]) { pages[2].Records[1].Position = 4 },
		"records not sorted": func(_ *stream.State, pages []stream.Page[string]) { pages[2].Records[1].Position = 2 },
	} {
		st, pages := made()
		damage(&st, pages)
		s, err := stream.Restore[string](st, stream.Options{})
		for i := 0; err == nil && i < len(pages); i++ {
			err = s.RestorePage(pages[i])
		}
		if !errors.Is(err, stream.ErrBadState) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A page holds at most 1 MiB of records, or one larger record.
func TestPageIsBounded(t *testing.T) {
	t.Parallel()
	s := stream.New[string]("seed", epoch, stream.Options{Shards: 1})
	for i, size := range []int{2 << 20, 600 << 10, 424 << 10, 1} {
		s.Append(0, record{Position: uint64(i + 1), At: epoch, Size: size})
	}
	it := start(t, s, s.Shards(everything, epoch)[0].ID, everything, epoch)
	for _, want := range []int{1, 2, 1, 0} {
		page, next, more, err := s.Read(it, 1000, everything, epoch)
		if err != nil || len(page) != want || !more {
			t.Errorf("%d records, more %v, %v; want %d", len(page), more, err, want)
		}
		it = next
	}
}

func BenchmarkAppend(b *testing.B) {
	s := stream.New[*int]("seed", epoch, stream.Options{MaxBytes: 1 << 20})
	value := new(int)
	var position uint64
	b.ReportAllocs()
	for b.Loop() {
		position++
		s.Append(uint32(position), stream.Record[*int]{Position: position, At: epoch, Size: 400, Value: value})
	}
}

func BenchmarkReadPage(b *testing.B) {
	s := stream.New[*int]("seed", epoch, stream.Options{Shards: 1})
	for i := range uint64(1000) {
		s.Append(0, stream.Record[*int]{Position: i + 1, At: epoch, Size: 400})
	}
	it := start(b, s, s.Shards(everything, epoch)[0].ID, everything, epoch)
	b.ReportAllocs()
	for b.Loop() {
		if page, _, _, err := s.Read(it, 1000, everything, epoch); err != nil || len(page) != 1000 {
			b.Fatal(len(page), err)
		}
	}
}
