package stream_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
)

type record = stream.Record[string]

// model is a stream by definition: one list of all records ever appended, searched from the start
// for every question.
type model struct {
	options  stream.Options
	created  time.Time
	shards   []modelShard
	records  []modelRecord
	closed   bool
	closedAt time.Time
	rolls    int64
	clock    time.Time
}

type modelShard struct {
	id, parent string
	slot       int
	start, end uint64
	closed     bool
	closedAt   time.Time
	sealed     uint64
}

type modelRecord struct {
	record
	shard int // index in shards
	gone  bool
}

func (m *model) last() uint64 {
	if len(m.records) == 0 {
		return 0
	}
	return m.records[len(m.records)-1].Position
}

func (m *model) close(position uint64) {
	for i := range m.shards {
		if sh := &m.shards[i]; !sh.closed {
			sh.closed, sh.closedAt, sh.sealed, sh.end = true, m.clock, position, max(sh.start, m.last())
		}
	}
}

// append takes the ids of new shards from the stream: the model does not define their form.
func (m *model) append(hash uint32, r record) {
	if r.At.After(m.clock) {
		m.clock = r.At
	}
	r.At = m.clock
	if rolls := int64(m.clock.Sub(m.created) / m.options.Roll); rolls > m.rolls {
		m.rolls = rolls
		m.close(r.Position)
		parents := slices.Clone(m.shards[len(m.shards)-m.options.Shards:])
		for i := range m.options.Shards {
			m.shards = append(m.shards, modelShard{slot: i, parent: parents[i].id, start: r.Position})
		}
	}
	m.trim(m.clock)
	at := len(m.shards) - m.options.Shards + int(hash)%m.options.Shards
	m.records = append(m.records, modelRecord{record: r, shard: at})
	var bytes int64
	for i := len(m.records) - 1; i >= 0; i-- {
		if m.records[i].gone {
			continue
		}
		bytes += int64(m.records[i].Size) + stream.Overhead
		if bytes > m.options.MaxBytes && i != len(m.records)-1 {
			m.records[i].gone = true
		}
	}
}

func (m *model) trim(now time.Time) {
	for i := range m.records {
		if now.Sub(m.records[i].At) >= m.options.Retention {
			m.records[i].gone = true
		}
	}
}

// listed reports whether a reader that sees up to durable finds a shard in the list now.
func (m *model) listed(sh *modelShard, durable uint64, now time.Time) bool {
	return (!sh.closed || now.Sub(sh.closedAt) < m.options.Retention) && (sh.parent == "" || sh.start <= durable)
}

func (m *model) list(durable uint64, now time.Time) []stream.Shard {
	out := []stream.Shard{}
	for i := range m.shards {
		sh := &m.shards[i]
		if !m.listed(sh, durable, now) {
			continue
		}
		d := stream.Shard{ID: sh.id, Parent: sh.parent, Start: sh.start}
		if sh.closed && sh.sealed <= durable {
			d.End = sh.end
		}
		out = append(out, d)
	}
	return out
}

func (m *model) find(shard int, from stream.Start, durable uint64, now time.Time) (after uint64, err error) {
	sh := &m.shards[shard]
	if !m.listed(sh, durable, now) {
		return 0, stream.ErrNoShard
	}
	floor := sh.start - 1
	since := uint64(0)
	for _, r := range m.records {
		if r.shard != shard {
			continue
		}
		if r.gone {
			floor = max(floor, r.Position)
		} else if since == 0 && !r.At.Before(from.Time) {
			since = r.Position
		}
	}
	newest := min(m.last(), durable)
	switch from.From {
	case stream.TrimHorizon:
		return floor, nil
	case stream.Latest:
		return max(floor, newest), nil
	case stream.Since:
		if from.Time.After(now) {
			return 0, stream.ErrFuture
		}
		if since != 0 {
			newest = min(newest, since-1)
		}
		return max(floor, newest), nil
	case stream.At:
		after = from.Position - 1
	case stream.After:
		after = from.Position
	}
	if from.Position < sh.start || sh.closed && sh.sealed <= durable && from.Position > sh.end {
		return 0, stream.ErrOutsideShard
	}
	return after, m.trimmed(shard, after)
}

func (m *model) trimmed(shard int, after uint64) error {
	for _, r := range m.records {
		if r.shard == shard && r.gone && r.Position > after {
			return stream.ErrTrimmed
		}
	}
	return nil
}

func (m *model) read(shard int, after uint64, limit int, durable uint64, now time.Time) (page []record, more bool, err error) {
	sh := &m.shards[shard]
	if sh.closed && now.Sub(sh.closedAt) >= m.options.Retention {
		return nil, false, stream.ErrTrimmed
	}
	if err := m.trimmed(shard, after); err != nil {
		return nil, false, err
	}
	bytes := 0
	for _, r := range m.records {
		if r.shard != shard || r.Position <= after {
			continue
		}
		bytes += r.Size
		if len(page) == limit || r.Position > durable || bytes > 1<<20 && len(page) > 0 {
			return page, true, nil
		}
		page = append(page, r.record)
	}
	return page, !sh.closed || sh.sealed > durable, nil
}

// machine runs a stream and its model side by side.
type machine struct {
	model
	stream  *stream.Stream[string]
	now     time.Time
	durable uint64
	issued  []issued
}

type issued struct {
	shard int
	it    stream.Iterator
}

var epoch = time.UnixMilli(1_700_000_000_000).UTC()

// learn gives the model the ids of new shards.
func (m *machine) learn(t *rapid.T) {
	list := m.stream.Shards(^uint64(0), m.now)
	unnamed := len(m.shards)
	for unnamed > 0 && m.shards[unnamed-1].id == "" {
		unnamed--
	}
	fresh := len(m.shards) - unnamed
	if fresh > len(list) {
		t.Fatalf("%d shards are listed, of which %d must be new", len(list), fresh)
	}
	for i, sh := range list[len(list)-fresh:] {
		m.shards[unnamed+i].id = sh.ID
	}
	m.trim(m.now)
}

func (m *machine) check(t *rapid.T) {
	if d := cmp.Diff(m.list(m.durable, m.now), m.stream.Shards(m.durable, m.now)); d != "" {
		t.Fatalf("shards (-model +stream):\n%s", d)
	}
	if got, want := m.stream.Closed(), m.closed; got != want {
		t.Fatalf("closed %v, want %v", got, want)
	}
	if got, want := m.stream.Expired(m.now), m.closed && m.now.Sub(m.closedAt) >= m.options.Retention; got != want {
		t.Fatalf("expired %v, want %v", got, want)
	}
}

func (m *machine) append(t *rapid.T) {
	if m.closed {
		return
	}
	for range rapid.IntRange(1, 20).Draw(t, "records") {
		r := record{
			Position: m.last() + rapid.Uint64Range(1, 3).Draw(t, "step"),
			At:       m.now.Add(-rapid.SampledFrom([]time.Duration{0, 0, 0, time.Hour}).Draw(t, "clock goes back")),
			Size:     rapid.SampledFrom([]int{0, 100, 400 << 10}).Draw(t, "size"),
		}
		r.Value = fmt.Sprint("value of ", r.Position)
		hash := rapid.Uint32Range(0, 7).Draw(t, "hash")
		m.stream.Append(hash, r)
		m.model.append(hash, r)
		m.learn(t)
	}
}

func (m *machine) pass(t *rapid.T) {
	m.now = m.now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Minute, time.Hour, 5 * time.Hour, 25 * time.Hour}).Draw(t, "passes"))
	m.trim(m.now)
}

func (m *machine) sync(t *rapid.T) {
	m.durable = rapid.Uint64Range(m.durable, max(m.durable, m.last())).Draw(t, "durable")
}

func (m *machine) find(t *rapid.T) {
	shard := rapid.IntRange(0, len(m.shards)-1).Draw(t, "shard")
	from := stream.Start{
		From:     stream.From(rapid.IntRange(int(stream.TrimHorizon), int(stream.Since)).Draw(t, "from")),
		Position: rapid.Uint64Range(0, m.last()+2).Draw(t, "position"),
		Time:     epoch.Add(time.Duration(rapid.Int64Range(0, int64(m.now.Sub(epoch)/time.Minute)+1).Draw(t, "minute")) * time.Minute),
	}
	want, wantErr := m.model.find(shard, from, m.durable, m.now)
	got, err := m.stream.Find("s", m.shards[shard].id, from, m.durable, m.now)
	if !errors.Is(err, wantErr) || err == nil && got.After != want {
		t.Fatalf("from %+v of shard %d: after %d, %v; want %d, %v", from, shard, got.After, err, want, wantErr)
	}
	if err == nil {
		m.issued = append(m.issued, issued{shard, got})
	}
}

func (m *machine) read(t *rapid.T) {
	if len(m.issued) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.issued)-1).Draw(t, "iterator")
	at := &m.issued[i]
	limit := rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "limit")
	records, next, more, err := m.stream.Read(at.it, limit, m.durable, m.now)
	if m.now.Sub(at.it.Issued) > 15*time.Minute {
		if !errors.Is(err, stream.ErrExpiredIterator) {
			t.Fatalf("an old iterator: %v", err)
		}
		m.issued = slices.Delete(m.issued, i, i+1)
		return
	}
	want, wantMore, wantErr := m.model.read(at.shard, at.it.After, limit, m.durable, m.now)
	if !errors.Is(err, wantErr) || more != wantMore {
		t.Fatalf("read after %d: more %v, %v; want %v, %v", at.it.After, more, err, wantMore, wantErr)
	}
	if d := cmp.Diff(want, records); d != "" {
		t.Fatalf("read after %d (-model +stream):\n%s", at.it.After, d)
	}
	if err != nil || !more {
		m.issued = slices.Delete(m.issued, i, i+1)
		return
	}
	at.it = next
}

func (m *machine) end(t *rapid.T) {
	if m.closed || rapid.IntRange(0, 9).Draw(t, "really") > 0 {
		return
	}
	if m.now.After(m.clock) {
		m.clock = m.now
	}
	position := m.last() + 1
	m.close(position)
	m.closed, m.closedAt = true, m.clock
	m.stream.Close(position, m.now)
	m.stream.Close(position+1, m.now.Add(time.Hour)) // has no effect
}

// restart replaces the stream by one restored from its export. The journal is then replayed from
// before the export.
func (m *machine) restart(t *rapid.T) {
	st := m.stream.State()
	var pages []stream.Page[string]
	if err := m.stream.Export(st, func(p stream.Page[string]) error {
		pages = append(pages, p)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	o := m.options
	o.Shards, o.Roll = 0, 0 // come from the state
	restored, err := stream.Restore[string](st, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if err := restored.RestorePage(p); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range m.records {
		restored.Append(0, r.record)
	}
	m.stream = restored
	m.trim(m.now)
}

// A stream answers as the model does, after any operations in any order.
func TestStreamIsItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := stream.Options{
			Shards: rapid.SampledFrom([]int{1, 3, 4}).Draw(t, "shards"), Roll: 4 * time.Hour, Retention: 24 * time.Hour,
			MaxBytes: rapid.SampledFrom([]int64{1, 2000, 3 << 20, 1 << 40}).Draw(t, "max bytes"),
		}
		m := &machine{stream: stream.New[string]("seed", epoch, o), now: epoch}
		m.model = model{options: o, created: epoch, clock: epoch}
		for i := range o.Shards {
			m.shards = append(m.shards, modelShard{slot: i, start: 1})
		}
		m.learn(t)
		t.Repeat(map[string]func(*rapid.T){
			"":        m.check,
			"append":  m.append,
			"pass":    m.pass,
			"sync":    m.sync,
			"find":    m.find,
			"read":    m.read,
			"read on": m.read,
			"end":     m.end,
			"restart": m.restart,
		})
	})
}
