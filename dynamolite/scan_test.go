package dynamolite_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// scanned is the combined result of the pages of a scan.
type scanned struct {
	items          []attrs
	count, scanned int
	pages          int
}

var errPages = errors.New("more pages than items")

// scanAll repeats a scan until its pages end. A page that ends at a limit must be full, and its
// position must have exactly the named keys.
func scanAll(tb testing.TB, db *dynamolite.DB, in dynamodb.ScanInput, keys []string) (all scanned, err error) {
	tb.Helper()
	for {
		out, err := db.Scan(tb.Context(), &in)
		if err != nil {
			return all, err
		}
		all.items = append(all.items, out.Items...)
		all.count += int(out.Count)
		all.scanned += int(out.ScannedCount)
		if all.pages++; all.pages > 10_000 {
			return all, errPages
		}
		switch {
		case in.Select == types.SelectCount && out.Items != nil:
			return all, errors.New("items were not asked for")
		case in.Select != types.SelectCount && (out.Items == nil || len(out.Items) != int(out.Count)):
			return all, fmt.Errorf("%d items are counted as %d", len(out.Items), out.Count)
		case in.Limit != nil && (out.LastEvaluatedKey != nil) != (out.ScannedCount == *in.Limit):
			return all, fmt.Errorf("a page of %d of %d ends with %v", out.ScannedCount, *in.Limit, out.LastEvaluatedKey)
		case out.LastEvaluatedKey == nil:
			return all, nil
		}
		if got := slices.Sorted(maps.Keys(out.LastEvaluatedKey)); !slices.Equal(got, keys) {
			return all, fmt.Errorf("the position names %v, want %v", got, keys)
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// segmentsOf returns the segments to scan so that nothing is missed: all of them, or, if there
// are very many, those that can have items and some others.
func segmentsOf(total int32) []int32 {
	var segments []int32
	if total <= 100 {
		for s := range total {
			segments = append(segments, s)
		}
		return segments
	}
	for shard := range int64(64) {
		s := int32(shard * int64(total) / 64)
		segments = append(segments, s)
		if shard%8 == 0 {
			segments = append(segments, s+1)
		}
	}
	return segments
}

// drawnScan is a scan and its expected result.
type drawnScan struct {
	in   dynamodb.ScanInput
	view view
	want []attrs // the items that pass the filter
	all  int     // scanned
	fail bool
}

func drawScan(t *rapid.T, m localModel) drawnScan {
	s := drawnScan{view: rapid.SampledFrom(localViews()).Draw(t, "view")}
	v := &s.view
	s.in = dynamodb.ScanInput{TableName: ptr(localTable), IndexName: v.name()}
	if n := rapid.Int32Range(0, 12).Draw(t, "limit"); n > 0 {
		s.in.Limit = &n
	}
	if rapid.Bool().Draw(t, "consistent") {
		s.in.ConsistentRead = ptr(true)
		s.fail = v.index != "" && !v.local
	}
	passes := func(attrs) bool { return true }
	switch rapid.IntRange(0, 3).Draw(t, "filter") {
	case 1:
		s.in.FilterExpression, s.in.ExpressionAttributeValues = ptr("pk <> :f"), attrs{":f": str("1")}
		passes = func(entry attrs) bool { return compareKeys(entry["pk"], str("1")) != 0 }
	case 2:
		s.in.FilterExpression, s.in.ExpressionAttributeValues = ptr("x >= :f"), attrs{":f": num("1")}
		passes = func(entry attrs) bool { return entry["x"] != nil && compareKeys(entry["x"], num("1")) >= 0 }
	case 3: // most indexes lack it
		s.in.FilterExpression = ptr("attribute_exists(w)")
		passes = func(entry attrs) bool { return entry["w"] != nil }
	}
	image := func(_, entry attrs) attrs { return entry }
	lacks := v.projected != nil && !v.local
	switch rapid.IntRange(0, 3).Draw(t, "select") {
	case 1:
		s.in.Select = types.SelectCount
	case 2:
		s.in.Select, s.fail = types.SelectAllAttributes, s.fail || lacks
		image = func(item, _ attrs) attrs { return item }
	case 3:
		s.in.ProjectionExpression, s.fail = ptr("sk, w"), s.fail || lacks
		image = func(item, _ attrs) attrs {
			if item["w"] == nil {
				return attrs{"sk": item["sk"]}
			}
			return attrs{"sk": item["sk"], "w": item["w"]}
		}
	}
	for _, item := range m {
		entry := v.entry(item)
		if entry == nil {
			continue
		}
		s.all++
		if passes(entry) {
			s.want = append(s.want, image(item, entry))
		}
	}
	return s
}

// The pages of all segments of a scan together hold the table or the index: each item once, with
// any limit, filter and projection.
func TestScanLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		db, m := newLocal(t), localModel{}
		for range rapid.IntRange(0, 40).Draw(rt, "items") {
			item := drawItem(rt)
			localPut(t, db, item)
			m[modelKey(item)] = item
		}
		for range 4 {
			s := drawScan(rt, m)
			total := rapid.SampledFrom([]int32{0, 1, 2, 3, 7, 16, 50, 64, 65, 1_000_000}).Draw(rt, "segments")
			var all scanned
			collect := func(in dynamodb.ScanInput) {
				got, err := scanAll(t, db, in, s.view.keys())
				if (err != nil) != s.fail {
					rt.Fatalf("got %v, want failure: %v", err, s.fail)
				}
				all.items, all.count, all.scanned = append(all.items, got.items...), all.count+got.count, all.scanned+got.scanned
			}
			if total == 0 {
				collect(s.in)
			} else {
				for _, segment := range segmentsOf(total) {
					in := s.in
					in.Segment, in.TotalSegments = &segment, &total
					collect(in)
				}
			}
			if s.fail {
				continue
			}
			if all.scanned != s.all || all.count != len(s.want) {
				rt.Fatalf("counted %d of %d, want %d of %d", all.count, all.scanned, len(s.want), s.all)
			}
			if s.in.Select == types.SelectCount {
				continue
			}
			want, got := textsOf(s.want), textsOf(all.items)
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(want, got) {
				rt.Fatalf("want %q\ngot  %q", want, got)
			}
		}
	})
}

// fill puts n small items in n/3 partitions into the main table.
func fill(tb testing.TB, f *fixture, n int) {
	tb.Helper()
	for i := range n {
		f.put(with(keyed(fmt.Sprint("p", i/3), strconv.Itoa(i%3)), attrs{
			"n": num(strconv.Itoa(i)), "fpk": str(fmt.Sprint("f", i%40)), "fsk": num(strconv.Itoa(i)),
		}))
	}
}

// With at most as many segments as shards, each segment has its share of the work.
func TestScanSegmentsShareTheWork(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const items = 6400
	fill(t, f, items)
	for _, total := range []int32{1, 2, 3, 4, 8, 16, 32, 64} {
		for segment := range total {
			all, err := scanAll(t, f.db, dynamodb.ScanInput{
				TableName: ptr(mainTable), Segment: &segment, TotalSegments: &total, Select: types.SelectCount,
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if fair := items / int(total); all.count > 2*fair || all.count < fair/2 {
				t.Errorf("segment %d of %d has %d items, a fair share is %d", segment, total, all.count, fair)
			}
		}
	}
}

// Each shard is in exactly one segment, and the segments follow one another.
func TestSegmentsCoverShards(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 16, 64} {
		for _, total := range []int{1, 2, 3, 5, 15, 16, 17, 63, 64, 65, 1000, 999_999, 1_000_000} {
			next := 0
			for segment := range total {
				from, to := dynamolite.SegmentOf(shards, segment, total)
				if from != next || to < from || to-from > (shards+total-1)/total {
					t.Fatalf("segment %d of %d has shards %d to %d of %d, the one before ended at %d", segment, total, from, to, shards, next)
				}
				next = to
			}
			if next != shards {
				t.Errorf("%d segments have %d of %d shards", total, next, shards)
			}
		}
	}
}

// A position belongs to the segment that it comes from.
func TestScanPositionBelongsToSegment(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fill(t, f, 300)
	for _, index := range []*string{nil, ptr(fullIndex)} {
		in := dynamodb.ScanInput{TableName: ptr(mainTable), IndexName: index, Limit: ptr(int32(1)), Segment: ptr(int32(0)), TotalSegments: ptr(int32(2))}
		out, err := f.db.Scan(t.Context(), &in)
		if err != nil || out.LastEvaluatedKey == nil {
			t.Fatal(out, err)
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
		if _, err := f.db.Scan(t.Context(), &in); err != nil {
			t.Error(err)
		}
		in.Segment = ptr(int32(1))
		_, err = f.db.Scan(t.Context(), &in)
		wantInvalid(t, err, "correct Segment. TotalSegments: 2 Segment: 1")
		in.Segment, in.TotalSegments = nil, nil
		if _, err := f.db.Scan(t.Context(), &in); err != nil {
			t.Error(err)
		}
	}
}

// Keys of the highest bytes are scanned like all others.
func TestScanReadsHighestKeys(t *testing.T) {
	t.Parallel()
	db := dynamolite.New(dynamolite.Options{})
	if _, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: ptr("bytes"), BillingMode: types.BillingModePayPerRequest, KeySchema: schemaOf("id", "pos"), AttributeDefinitions: definitionsOf("id:B", "pos:B"),
	}); err != nil {
		t.Fatal(err)
	}
	high := func(n int) types.AttributeValue {
		return &types.AttributeValueMemberB{Value: slices.Repeat([]byte{0xFF}, n)}
	}
	for _, n := range []int{1, 1024, 2048} {
		if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: ptr("bytes"), Item: attrs{"id": high(n), "pos": high(1024)}}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := scanAll(t, db, dynamodb.ScanInput{TableName: ptr("bytes"), Limit: ptr(int32(1))}, []string{"id", "pos"})
	if err != nil || all.count != 3 {
		t.Errorf("found %d items, want 3: %v", all.count, err)
	}
}

// A page ends with the item that crosses 1 MB, no matter which partitions the items are in.
func TestScanPageOfBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const each = 100 * 1024
	for i := range 15 {
		f.put(with(keyed(fmt.Sprintf("%02d", i), "a"), attrs{"s": blob(each - len("pk00skas"))}))
	}
	in := dynamodb.ScanInput{
		TableName: ptr(mainTable), ProjectionExpression: ptr("pk"), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		FilterExpression: ptr("attribute_not_exists(s)"),
	}
	var pages, sums []float64
	for more := true; more; more = in.ExclusiveStartKey != nil {
		out, err := f.db.Scan(t.Context(), &in)
		if err != nil {
			t.Fatal(err)
		}
		pages, sums = append(pages, float64(out.ScannedCount)), append(sums, *out.ConsumedCapacity.CapacityUnits)
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
	mustEqual(t, "items of pages", []float64{11, 4}, pages)
	mustEqual(t, "RCU of pages", []float64{11 * each / 4096 / 2., 4 * each / 4096 / 2.}, sums)
}

// A scan is billed for the sum of the items that it read, rounded once, and a scan of an index
// for its own entries.
func TestScanBill(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 10 {
		f.put(with(keyed(strconv.Itoa(i), "a"), attrs{"fpk": str("f"), "fsk": num("1"), "kpk": str("k"), "w": blob(1000)}))
	}
	for _, tt := range []struct {
		index      string
		consistent bool
		what       types.Select
		want       float64
	}{
		{"", false, "", 1.5},
		{"", true, "", 3},
		{"", false, types.SelectCount, 1.5},
		{fullIndex, false, "", 1.5},
		{keysOnly, false, "", 0.5},
		{someAttrs, false, "", 0.5}, // the index is empty
	} {
		in := dynamodb.ScanInput{
			TableName: ptr(mainTable), ConsistentRead: &tt.consistent, Select: tt.what, ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes,
		}
		if tt.index != "" {
			in.IndexName = &tt.index
		}
		out, err := f.db.Scan(t.Context(), &in)
		if err != nil {
			t.Fatal(err)
		}
		want := &types.ConsumedCapacity{TableName: ptr(mainTable), CapacityUnits: &tt.want, Table: &types.Capacity{CapacityUnits: &tt.want}}
		if tt.index != "" {
			want.Table = &types.Capacity{CapacityUnits: ptr(0.)}
			want.GlobalSecondaryIndexes = map[string]types.Capacity{tt.index: {CapacityUnits: &tt.want}}
		}
		mustEqual(t, fmt.Sprintf("%s, consistent %v, %s", tt.index, tt.consistent, tt.what), want, out.ConsumedCapacity)
	}
	if got := f.db.Ledger()[dynamolite.LedgerKey{Table: mainTable, Operation: "Scan"}]; got.Requests != 6 || got.ReadUnits != 6 {
		t.Errorf("the ledger has %+v", got)
	}
}

// During writes, a scan finds each permanent item exactly once: in the table, and in every index
// in which the item does not move.
func TestScanBesideWrites(t *testing.T) {
	t.Parallel()
	db := newLocal(t)
	const stay = 400
	for i := range stay {
		localPut(t, db, with(keyed(fmt.Sprint("p", i%90), fmt.Sprint("stay", i)), attrs{
			"n": num("1"), "t": str("t"), "b": bin("b"), "g": str(fmt.Sprint("g", i%70)), "stays": num(strconv.Itoa(i)), "x": num(strconv.Itoa(i)),
		}))
	}
	done := make(chan struct{})
	var writers, readers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				churn(t, db, w, i, stay)
			}
		})
	}
	for _, v := range localViews() {
		readers.Go(func() {
			for round := range 4 {
				total := []int32{1, 3, 16, 64}[round]
				seen := map[string]int{}
				for segment := range total {
					all, err := scanAll(t, db, dynamodb.ScanInput{
						TableName: ptr(localTable), IndexName: v.name(), Limit: ptr(int32(17)), Segment: &segment, TotalSegments: &total,
						FilterExpression: ptr("begins_with(sk, :stay)"), ExpressionAttributeValues: attrs{":stay": str("stay")},
					}, v.keys())
					if err != nil {
						t.Error(err)
						return
					}
					for _, item := range all.items {
						seen[modelKey(item)]++
					}
				}
				if len(seen) != stay {
					t.Errorf("%q in %d segments: found %d of %d items", v.index, total, len(seen), stay)
				}
				for key, times := range seen {
					if times != 1 {
						t.Errorf("%q in %d segments: found %s %d times", v.index, total, key, times)
					}
				}
			}
		})
	}
	readers.Wait()
	close(done)
	writers.Wait()
}

// churn puts, updates and deletes other items, and updates the permanent ones without moving
// them.
func churn(t *testing.T, db *dynamolite.DB, writer, i, stay int) {
	t.Helper()
	j := i % stay
	if _, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: ptr(localTable), Key: keyed(fmt.Sprint("p", j%90), fmt.Sprint("stay", j)),
		UpdateExpression: ptr("SET x = :x"), ExpressionAttributeValues: attrs{":x": num(strconv.Itoa(i))},
	}); err != nil {
		t.Error(err)
	}
	key := keyed(fmt.Sprint("p", i*7%90), fmt.Sprint("goes", writer, i%30))
	localPut(t, db, with(key, attrs{"n": num("1"), "t": str("t"), "b": bin("b"), "g": str(fmt.Sprint("g", i%70))}))
	if i%2 == 0 {
		if _, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: ptr(localTable), Key: key}); err != nil {
			t.Error(err)
		}
	}
}

// Counting decodes nothing: its cost depends on the pages, not on the items.
func TestScanCountAllocations(t *testing.T) {
	f := newFixture(t)
	fill(t, f, 3000)
	in := &dynamodb.ScanInput{TableName: ptr(mainTable), Select: types.SelectCount}
	if got := testing.AllocsPerRun(20, func() {
		if out, err := f.db.Scan(t.Context(), in); err != nil || out.Count != 3000 {
			t.Error(out, err)
		}
	}); got > 64*10 {
		t.Errorf("counting 3,000 items makes %v allocations", got)
	}
}

// manyItems returns a table of 100,000 items of about 200 bytes.
func manyItems(b *testing.B) *fixture {
	b.Helper()
	f := newFixture(b)
	for i := range 100_000 {
		f.put(with(keyed(fmt.Sprint("entity#", i), "#BUCKET#0"), attrs{
			"name": str("a name of some length"), "rf": num("1790000000000"), "tk": num("900000000000000000"), "tc": num("1"),
			"cp": num("1000"), "note": blob(100),
		}))
	}
	return f
}

func BenchmarkScan(b *testing.B) {
	f := manyItems(b)
	for _, bb := range []struct {
		name   string
		change func(*dynamodb.ScanInput)
	}{
		{"all", func(*dynamodb.ScanInput) {}},
		{"count", func(in *dynamodb.ScanInput) { in.Select = types.SelectCount }},
		{"filter", func(in *dynamodb.ScanInput) {
			in.FilterExpression, in.ExpressionAttributeValues = ptr("tc > :v"), attrs{":v": num("1")}
		}},
		{"pages of 100", func(in *dynamodb.ScanInput) { in.Limit = ptr(int32(100)) }},
		{"pages of 1", func(in *dynamodb.ScanInput) {
			in.Limit, in.Segment, in.TotalSegments = ptr(int32(1)), ptr(int32(0)), ptr(int32(64))
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			pages, items := 0, 0
			for b.Loop() {
				in := dynamodb.ScanInput{TableName: ptr(mainTable)}
				bb.change(&in)
				for more := true; more; more = in.ExclusiveStartKey != nil {
					out, err := f.db.Scan(b.Context(), &in)
					if err != nil {
						b.Fatal(err)
					}
					pages, items = pages+1, items+int(out.ScannedCount)
					in.ExclusiveStartKey = out.LastEvaluatedKey
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(items), "ns/item")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(pages), "ns/page")
		})
	}
}
