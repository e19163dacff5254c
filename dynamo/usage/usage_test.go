package usage_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// noon is the start of the windows in most tests.
var noon = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

func hourly(entity string) usage.Key {
	return usage.Key{Entity: entity, Resource: "gpt-4", Window: usage.Hourly, Start: noon}
}

// step returns a change with one acquire of tokens of tpm.
func step(shard, sequence int, tokensMilli int64) usage.Step {
	return usage.Step{
		Shard: shard, Sequence: strconv.Itoa(sequence), Events: 1, Tokens: []store.Amount{{Limit: "tpm", Milli: tokensMilli}},
	}
}

func add(t *testing.T, s *dynamo.Store, k usage.Key, steps ...usage.Step) {
	t.Helper()
	if err := s.Usage().Add(t.Context(), &usage.Delta{Key: k, Steps: steps}); err != nil {
		t.Fatal(err)
	}
}

// used returns a store's counts of one snapshot: acquires, and tokens by limit.
func used(t *testing.T, s *dynamo.Store, k usage.Key) (events int64, tokens map[string]int64) {
	t.Helper()
	page, err := s.Usage().Read(t.Context(), usage.Query{
		Entity: k.Entity, Resource: k.Resource, Window: k.Window, From: k.Start, To: k.Window.End(k.Start),
	})
	if err != nil {
		t.Fatal(err)
	}
	tokens = map[string]int64{}
	for _, u := range page.Snapshots {
		if len(page.Snapshots) > 1 || u.Key != k {
			t.Fatalf("asked for %+v, got %+v", k, page.Snapshots)
		}
		for _, a := range u.Tokens {
			if !a.Milli.IsInt64() {
				t.Fatalf("%s: %v millitokens of %s", k.Entity, a.Milli, a.Limit)
			}
			tokens[a.Limit] = a.Milli.Int64()
		}
		events = u.Events
	}
	return events, tokens
}

func wantUsed(t *testing.T, s *dynamo.Store, k usage.Key, events int64, tokens map[string]int64) {
	t.Helper()
	gotEvents, got := used(t, s, k)
	if diff := cmp.Diff(tokens, got); diff != "" || gotEvents != events {
		t.Errorf("%d events, want %d; tokens (-want +got):\n%s", gotEvents, events, diff)
	}
}

func TestWindows(t *testing.T) {
	t.Parallel()
	at := func(s string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, c := range []struct {
		window         usage.Window
		in, start, end string
	}{
		{usage.Hourly, "2024-02-29T23:59:59.999999999Z", "2024-02-29T23:00:00Z", "2024-03-01T00:00:00Z"},
		{usage.Hourly, "2024-03-01T00:00:00Z", "2024-03-01T00:00:00Z", "2024-03-01T01:00:00Z"},
		{usage.Hourly, "2024-03-01T00:15:00+05:30", "2024-02-29T18:00:00Z", "2024-02-29T19:00:00Z"},
		{usage.Daily, "2024-02-28T12:00:00Z", "2024-02-28T00:00:00Z", "2024-02-29T00:00:00Z"},
		{usage.Daily, "2024-02-29T23:59:59.999Z", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"},
		{usage.Daily, "2023-02-28T23:59:59Z", "2023-02-28T00:00:00Z", "2023-03-01T00:00:00Z"},
		{usage.Daily, "2024-12-31T23:30:00-01:00", "2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z"},
		{usage.Monthly, "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{usage.Monthly, "2024-12-31T23:59:59Z", "2024-12-01T00:00:00Z", "2025-01-01T00:00:00Z"},
		{usage.Monthly, "2025-01-01T00:00:00Z", "2025-01-01T00:00:00Z", "2025-02-01T00:00:00Z"},
	} {
		if start, end := c.window.Start(at(c.in)), c.window.End(at(c.in)); !start.Equal(at(c.start)) || !end.Equal(at(c.end)) {
			t.Errorf("%s window of %s is %v to %v", c.window, c.in, start, end)
		}
		if w, err := usage.ParseWindow(c.window.String()); err != nil || w != c.window {
			t.Errorf("%s parses as %v, %v", c.window, w, err)
		}
	}
	_, err := usage.ParseWindow(usage.Window(3).String())
	fixture.WantErr(t, err, store.ErrInvalid)
	if w := usage.Window(0); w != usage.Hourly {
		t.Errorf("the zero window is %s", w)
	}
}

// A history is the changes of a bucket's shards, each with its sequence number. It also
// records how far each shard's changes have been delivered.
type history struct {
	steps     [][]usage.Step
	delivered []int
}

func newHistory(t *rapid.T) *history {
	h := &history{steps: make([][]usage.Step, rapid.IntRange(1, 4).Draw(t, "shards"))}
	h.delivered = make([]int, len(h.steps))
	sequence := 1
	for range rapid.IntRange(1, 30).Draw(t, "changes") {
		shard := rapid.IntRange(0, len(h.steps)-1).Draw(t, "shard")
		sequence += rapid.IntRange(1, 1_000_000).Draw(t, "gap") // so that numbers differ in length
		s := usage.Step{Shard: shard, Sequence: strconv.Itoa(sequence), Events: rapid.Int64Range(0, 3).Draw(t, "events")}
		for _, limit := range rapid.SliceOfN(rapid.SampledFrom([]string{"rpm", "tpm", "ttl"}), 0, 4).Draw(t, "limits") {
			s.Tokens = append(s.Tokens, store.Amount{Limit: limit, Milli: rapid.Int64Range(-2500, 2500).Draw(t, "tokens")})
		}
		h.steps[shard] = append(h.steps[shard], s)
	}
	return h
}

// deliver returns a batch that the stream may deliver next. It has some changes of each
// shard in their order, without gaps. Any change may come again, even twice in a row,
// mixed with those of other shards.
func (h *history) deliver(t *rapid.T, whole bool) []usage.Step {
	var batch []usage.Step
	for shard, steps := range h.steps {
		from := rapid.IntRange(0, h.delivered[shard]).Draw(t, "from")
		to := len(steps)
		if !whole {
			to = rapid.IntRange(from, to).Draw(t, "to")
		}
		h.delivered[shard] = max(h.delivered[shard], to)
		at := 0 // the earliest position in the batch for the shard's next step
		for _, s := range steps[from:to] {
			at = rapid.IntRange(at, len(batch)).Draw(t, "place")
			batch = slices.Insert(batch, at, s)
			at++
			if rapid.IntRange(0, 9).Draw(t, "twice") == 0 {
				batch = slices.Insert(batch, at, s)
				at++
			}
		}
	}
	return batch
}

// sum returns the consumption of the whole history.
func (h *history) sum() (events int64, tokens map[string]int64) {
	tokens = map[string]int64{}
	for _, steps := range h.steps {
		for _, s := range steps {
			events += s.Events
			for _, a := range s.Tokens {
				tokens[a.Limit] += a.Milli
			}
		}
	}
	return events, tokens
}

// Each change counts once, in whatever batches and however often the stream delivers
// it.
func checkUsageCountsOnce(t *testing.T, api dynamo.API) {
	t.Helper()
	s := fixture.OpenStore(t, api)
	entities := 0
	rapid.Check(t, func(rt *rapid.T) {
		entities++
		k, h := hourly("once-"+strconv.Itoa(entities)), newHistory(rt)
		for i := rapid.IntRange(0, 6).Draw(rt, "batches"); i >= 0; i-- {
			if err := s.Usage().Add(t.Context(), &usage.Delta{Key: k, Steps: h.deliver(rt, i == 0)}); err != nil {
				rt.Fatal(err)
			}
		}
		events, tokens := h.sum()
		gotEvents, got := used(t, s, k)
		for limit, n := range tokens {
			if got[limit] != n {
				rt.Fatalf("%d millitokens of %s, want %d", got[limit], limit, n)
			}
		}
		if gotEvents != events {
			rt.Fatalf("%d events, want %d", gotEvents, events)
		}
	})
}

// Several aggregators that read the same stream, each in its own batches, count each
// change once.
func checkUsageRace(t *testing.T, api dynamo.API) {
	t.Helper()
	const writers, changes, shards = 6, 60, 3
	s, k := fixture.OpenStore(t, api), hourly("raced")
	var history []usage.Step
	for i := range changes {
		history = append(history, step(i%shards, 1_000+i, 1500))
	}
	var wg sync.WaitGroup
	for w := range writers {
		dice := rand.New(rand.NewPCG(1, uint64(w)))
		wg.Go(func() {
			for from := 0; from < changes; {
				to := min(changes, from+1+dice.IntN(12))
				if err := s.Usage().Add(t.Context(), &usage.Delta{Key: k, Steps: history[from:to]}); err != nil {
					t.Error(err)
				}
				from = to
			}
		})
	}
	wg.Wait()
	wantUsed(t, s, k, changes, map[string]int64{"tpm": changes * 1500})
}

// The writes of an hourly usage snapshot cost the listed requests and write units.
func checkUsageCosts(t *testing.T, api dynamo.API, p dynamo.Projection) {
	t.Helper()
	meter := dynamo.NewMeter(api)
	s, k := fixture.OpenStore(t, meter), hourly("costly-"+string(p))
	first, again := 3.0, 1.0 // the table, and the entries in GSI2 and GSI4
	if p == dynamo.ProjectAll {
		again = 2 // GSI2 keeps the counters too
	}
	batch := func(from, to int) (steps []usage.Step) {
		for i := from; i < to; i++ {
			steps = append(steps, step(i%2, 1000+i, 1000))
		}
		return steps
	}
	for _, c := range []struct {
		of       string
		steps    []usage.Step
		requests int64
		wcu      float64
	}{
		{"a new snapshot", batch(0, 100), 1, first},
		{"100 steps more", batch(100, 200), 1, again},
		{"the same again", batch(100, 200), 1, 1},
		{"a batch that overlaps", batch(150, 250), 2, 1 + again},
		{"no step", nil, 0, 0},
		{"steps that change nothing", []usage.Step{{Sequence: "5000", Tokens: []store.Amount{{Limit: "tpm"}}}}, 0, 0},
	} {
		before := meter.Totals()
		add(t, s, k, c.steps...)
		if got := meter.Totals().Sub(before).Sum(); got.Requests != c.requests || got.WCU != c.wcu || got.RCU != 0 {
			t.Errorf("%s cost %+v, want %d requests and %v WCU", c.of, got, c.requests, c.wcu)
		}
	}
	wantUsed(t, s, k, 250, map[string]int64{"tpm": 250_000})
}

func TestUsageCountsOnce(t *testing.T) { t.Parallel(); checkUsageCountsOnce(t, fixture.NewTable(t)) }

func TestUsageIsCountedByManyAsByOne(t *testing.T) {
	t.Parallel()
	checkUsageRace(t, fixture.NewTable(t))
}

func TestUsageCosts(t *testing.T) {
	t.Parallel()
	for _, p := range []dynamo.Projection{dynamo.ProjectKeys, dynamo.ProjectAll} {
		checkUsageCosts(t, fixture.NewTableOf(t, dynamo.TableOptions{Name: table, GSI2Projection: p}), p)
	}
}

// The item has the format that the peer reads. Apart from its strings, each number in
// it is the whole tokens of a limit.
func TestUsageItem(t *testing.T) {
	t.Parallel()
	db := fixture.NewNS1(t)
	s := fixture.OpenStore(t, db)
	day := usage.Key{Entity: "user-1", Resource: "a/b", Window: usage.Daily, Start: usage.Daily.Start(noon)}
	add(t, s, day,
		step(0, 77, 2_000),
		usage.Step{Shard: 13, Sequence: strings.Repeat("9", 40), Events: 2, Tokens: []store.Amount{
			{Limit: "ttl", Milli: 4_000}, {Limit: "rpm", Milli: -1_500}, {Limit: "rpm", Milli: -500}, {Limit: "x.y-z", Milli: 1},
		}})
	got := map[string]string{}
	for name, v := range fixture.Get(t, db, schema.Key{PK: "ns1/ENTITY#user-1", SK: "#USAGE#a/b#daily#2024-02-29T00:00:00Z"}) {
		got[name] = fixture.Notation(v)
	}
	want := map[string]string{
		"PK": "S ns1/ENTITY#user-1", "SK": "S #USAGE#a/b#daily#2024-02-29T00:00:00Z",
		"GSI2PK": "S ns1/RESOURCE#a/b", "GSI2SK": "S USAGE#daily#2024-02-29T00:00:00Z#user-1",
		"GSI4PK": "S ns1", "GSI4SK": "S ns1/ENTITY#user-1",
		"entity_id": "S user-1", "resource": "S a/b", "window": "S daily", "window_start": "S 2024-02-29T00:00:00Z",
		"ttl":          "N " + strconv.FormatInt(day.Start.AddDate(0, 0, 91).Unix(), 10),
		"total_events": "N 3", "tpm": "N 2", "rpm": "N -2", "#ttl": "N 4", "x.y-z": "N 0", "x.y-z#milli": "N 1",
		"seq#0": "S " + strings.Repeat("0", 38) + "77", "at#0": "S ", "low#0": "S 77",
		"seq#13": "S " + strings.Repeat("9", 40), "at#13": "S ", "low#13": "S " + strings.Repeat("9", 40),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the item (-want +got):\n%s", diff)
	}
	wantUsed(t, s, day, 3, map[string]int64{"tpm": 2_000, "rpm": -2_000, "ttl": 4_000, "x.y-z": 1})
}

// Windows that start together are separate, and no limit name collides with an
// attribute (peer defects 9.1 and 9.10).
func TestUsageCollidesWithNothing(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	s := fixture.OpenStore(t, db)
	names := []string{
		"PK", "SK", "GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK", "GSI3PK", "GSI3SK", "GSI4PK", "GSI4SK", "LSI1SK", "LSI5SK",
		"entity_id", "resource", "window", "window_start", "ttl", "total_events", "seq", "milli", "rpm", "rpm.milli", "size", "name",
	}
	newYear := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, w := range []usage.Window{usage.Hourly, usage.Daily, usage.Monthly} {
		want := map[string]int64{}
		all := usage.Step{Sequence: "1", Events: int64(i + 1)}
		for j, name := range names {
			want[name] = int64(i*1000 + j*10 + 1)
			all.Tokens = append(all.Tokens, store.Amount{Limit: name, Milli: want[name]})
		}
		k := usage.Key{Entity: "user", Resource: "gpt-4", Window: w, Start: newYear}
		add(t, s, k, all)
		wantUsed(t, s, k, int64(i+1), want)
	}
}

func TestUsageOfMillitokens(t *testing.T) {
	t.Parallel()
	s := fixture.OpenStore(t, fixture.NewTable(t))
	k, sum := hourly("user"), int64(0)
	for i, n := range []int64{999, 1, 1, -1, -999, 500, 500, 500, -1, 1_000_000_000_000_000_999, -1_000_000_000_000_000_998, -2_500} {
		sum += n
		add(t, s, k, step(0, i+1, n))
		wantUsed(t, s, k, int64(i+1), map[string]int64{"tpm": sum})
	}
}

// A batch may hold changes of all the shards that a bucket can have.
func TestUsageOfManyShards(t *testing.T) {
	t.Parallel()
	s, want := fixture.OpenStore(t, fixture.NewTable(t)), map[string]int64{}
	var all []usage.Step
	for i := range 64 {
		st := step(i%32, 100+i, 500)
		limit := "limit-" + strconv.Itoa(i%20)
		st.Tokens = append(st.Tokens, store.Amount{Limit: limit, Milli: int64(i)})
		want[limit] += int64(i)
		all = append(all, st)
	}
	want["tpm"] = 64 * 500
	add(t, s, hourly("user"), all...)
	add(t, s, hourly("user"), all[7:50]...)
	wantUsed(t, s, hourly("user"), 64, want)
}

func TestUsageOutlivesItsWindow(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	written := 0
	ttl := func(of time.Duration) string {
		t.Helper()
		s, err := dynamo.Open(t.Context(), dynamo.Options{API: db, Table: table, Now: now, UsageTTL: of})
		if err != nil {
			t.Fatal(err)
		}
		_, ns := s.Namespace()
		written++
		add(t, s, hourly("user"), step(0, written, 1))
		it := fixture.Get(t, db, schema.UsageKey(ns, "user", "gpt-4", "hourly", noon))
		if it[schema.TTL] == nil {
			return "never"
		}
		return fixture.Notation(it[schema.TTL])
	}
	end := noon.Add(time.Hour)
	for _, c := range []struct {
		of   time.Duration
		want string
	}{
		{0, fmt.Sprint("N ", end.AddDate(0, 0, 90).Unix())},
		{time.Minute, fmt.Sprint("N ", end.Unix()+60)},
		{-1, "never"},
		{24 * time.Hour, fmt.Sprint("N ", end.AddDate(0, 0, 1).Unix())},
	} {
		if got := ttl(c.of); got != c.want {
			t.Errorf("with %v a snapshot expires at %s, want %s", c.of, got, c.want)
		}
	}
}

func TestUsageThatCannotBe(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	for field, change := range map[string]func(*usage.Delta){
		"entity":     func(d *usage.Delta) { d.Entity = "a#b" },
		"resource":   func(d *usage.Delta) { d.Resource = "" },
		"window":     func(d *usage.Delta) { d.Window = 3 },
		"start":      func(d *usage.Delta) { d.Start = d.Start.Add(time.Second) },
		"shard":      func(d *usage.Delta) { d.Steps[1].Shard = -1 },
		"events":     func(d *usage.Delta) { d.Steps[1].Events = -1 },
		"sequence":   func(d *usage.Delta) { d.Steps[1].Sequence = strings.Repeat("1", 41) },
		"limit name": func(d *usage.Delta) { d.Steps[1].Tokens[0].Limit = schema.WCU },
	} {
		d := &usage.Delta{Key: hourly("user"), Steps: []usage.Step{step(0, 1, 1), step(0, 2, 1)}}
		change(d)
		err := s.Usage().Add(t.Context(), d)
		fixture.WantErr(t, err, store.ErrInvalid)
		if err == nil || !strings.Contains(err.Error(), "invalid "+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, sequence := range []string{"", "-1", "1e3", "0x10", " 1", "１"} {
		d := &usage.Delta{Key: hourly("user"), Steps: []usage.Step{{Sequence: sequence, Events: 1}}}
		fixture.WantErr(t, s.Usage().Add(t.Context(), d), store.ErrInvalid)
	}
	if len(f.Ops()) > 0 {
		t.Errorf("%v were sent", f.Ops())
	}
}

// A snapshot with damaged sequence numbers is not added to.
func TestUsageWithDamagedSequence(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	_, ns := s.Namespace()
	it := schema.UsageKey(ns, "user", "gpt-4", "hourly", noon).Item()
	it[schema.UsageSequenceAttr(0)] = schema.N(1)
	fixture.Put(t, f, it)
	err := s.Usage().Add(t.Context(), &usage.Delta{Key: hourly("user"), Steps: []usage.Step{step(0, 2, 1)}})
	fixture.WantErr(t, err, store.ErrCorrupt)
}

// A failure between two batches loses nothing if both are sent again.
func TestUsageAfterAFailure(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	k := hourly("user")
	f.Set(faults.Before(func(*faults.Call) error { return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED} }))
	err := s.Usage().Add(t.Context(), &usage.Delta{Key: k, Steps: []usage.Step{step(0, 1, 1000)}})
	fixture.WantErr(t, err, store.ErrUnavailable)
	f.Set(nil)
	add(t, s, k, step(0, 1, 1000), step(0, 2, 1000))
	wantUsed(t, s, k, 2, map[string]int64{"tpm": 2000})
}

func TestUsageGoesWithItsEntity(t *testing.T) {
	t.Parallel()
	s := fixture.OpenStore(t, fixture.NewTable(t))
	add(t, s, hourly("user"), step(0, 1, 1000))
	if n, err := s.DeleteEntity(t.Context(), "user"); n != 1 || err != nil {
		t.Errorf("deleted %d items, %v", n, err)
	}
	wantUsed(t, s, hourly("user"), 0, map[string]int64{})
}
