package stream_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// A follow is a follower and the records that it delivered.
type follow struct {
	*testing.T
	api     dynamo.API
	streams *streamFault
	o       stream.Options

	mu   sync.Mutex
	seen []stream.Record // of interest
	// handle, if not nil, runs before records are noted.
	handle func([]stream.Record) error
	// putOff, if not nil, decides by its stamp whether a record is deferred. later, if
	// not nil, runs before the deferred records are noted.
	putOff func(stamp int64) bool
	later  func() error
	lately []int64 // stamps of deferred records, once processed

	written int // the last stamp
	stop    context.CancelFunc
	ended   chan error
}

// streamFault stands between a follower and the stream.
type streamFault struct {
	stream.API
	mu     sync.Mutex
	before func(op string) error
	ops    map[string]int
}

func (f *streamFault) seen(op string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ops == nil {
		f.ops = map[string]int{}
	}
	f.ops[op]++
	if f.before == nil {
		return nil
	}
	return f.before(op)
}

func (f *streamFault) DescribeStream(ctx context.Context, in *dynamodbstreams.DescribeStreamInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	if err := f.seen("DescribeStream"); err != nil {
		return nil, err
	}
	limit := int32(3) // several pages
	part := *in
	part.Limit = &limit
	return f.API.DescribeStream(ctx, &part, o...)
}

func (f *streamFault) GetShardIterator(ctx context.Context, in *dynamodbstreams.GetShardIteratorInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	if err := f.seen("GetShardIterator " + string(in.ShardIteratorType)); err != nil {
		return nil, err
	}
	return f.API.GetShardIterator(ctx, in, o...)
}

func (f *streamFault) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	if err := f.seen("GetRecords"); err != nil {
		return nil, err
	}
	return f.API.GetRecords(ctx, in, o...)
}

func newFollow(t *testing.T, api dynamo.API, streams stream.API) *follow {
	t.Helper()
	f := &follow{T: t, api: api, streams: &streamFault{API: streams}}
	f.o = stream.Options{API: api, Table: table, Streams: f.streams, Batch: 7}
	return f
}

// start follows the stream until end.
func (f *follow) start() {
	f.Helper()
	follower, err := stream.NewFollower(f.o)
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.Context())
	f.stop, f.ended = cancel, make(chan error, 1)
	go func() {
		f.ended <- follower.Run(ctx, f.note, f.noteLater)
	}()
}

func (f *follow) note(_ context.Context, records []stream.Record) (putOff []int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.handle != nil {
		if err := f.handle(records); err != nil {
			return nil, err
		}
	}
	for i, r := range records {
		if !r.IsOfInterest() {
			continue
		}
		f.seen = append(f.seen, r)
		if f.putOff != nil && f.putOff(r.New.RefilledAt) {
			putOff = append(putOff, i)
		}
	}
	return putOff, nil
}

func (f *follow) noteLater(_ context.Context, records []stream.Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.later != nil {
		if err := f.later(); err != nil {
			return err
		}
	}
	for _, r := range records {
		f.lately = append(f.lately, r.New.RefilledAt)
	}
	return nil
}

// end stops the follower, which must end without an error.
func (f *follow) end() {
	f.Helper()
	f.stop()
	if err := <-f.ended; err != nil {
		f.Errorf("ended with %v", err)
	}
}

// take returns the stamps of the items written, in the order of delivery since the last
// call. The stamps of one item must rise.
func (f *follow) take() (stamps []int) {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	last := map[string]stream.Record{}
	for _, r := range f.seen {
		before, ok := last[r.Key]
		if ok && (before.New.RefilledAt >= r.New.RefilledAt || stream.CompareSequences(before.Sequence, r.Sequence) >= 0) {
			f.Errorf("stamp %d of %s comes after %d", r.New.RefilledAt, r.Key, before.New.RefilledAt)
		}
		last[r.Key] = r
		stamps = append(stamps, int(r.New.RefilledAt))
	}
	f.seen = nil
	slices.Sort(stamps)
	return stamps
}

// write puts buckets with the stamps from the first to the last, of nine users.
func (f *follow) write(from, to int) {
	f.Helper()
	f.written = to
	for i := from; i <= to; i++ {
		fixture.Put(f.T, f.api, schema.Item{
			"PK": schema.S("ns/BUCKET#u" + strconv.Itoa(i%9) + "#r#0"), "SK": schema.S(schema.StateSK), schema.RF: schema.N(int64(i)),
		})
	}
}

// writeFor puts ten buckets every half hour. The stream's shards end every four hours.
func (f *follow) writeFor(long time.Duration) {
	f.Helper()
	for i := range int(long / (30 * time.Minute)) {
		f.write(10*i+1, 10*i+10)
		time.Sleep(30 * time.Minute)
	}
}

// wantNoMore checks that a follower that starts now has nothing left to read.
func (f *follow) wantNoMore() {
	f.Helper()
	f.start()
	time.Sleep(time.Minute)
	f.end()
	f.want(1, 0)
}

func (f *follow) want(from, to int) {
	f.Helper()
	var want []int
	for i := from; i <= to; i++ {
		want = append(want, i)
	}
	if got := f.take(); !slices.Equal(got, want) {
		f.Errorf("handed on %v, want %d to %d", got, from, to)
	}
}

func following(t *testing.T, test func(*follow)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newStreamed(t)
		test(newFollow(t, db, db))
	})
}

// Records come once, in the order of each item's writes. A new run continues where the
// follower was stopped.
func checkFollower(f *follow, passes func(time.Duration)) {
	f.Helper()
	f.write(1, 40)
	f.start()
	passes(3 * time.Second)
	f.want(1, 40)
	f.write(41, 60)
	passes(3 * time.Second)
	f.end()
	f.want(41, 60)
	f.write(61, 80)
	f.start()
	passes(3 * time.Second)
	f.end()
	f.want(61, 80)
	f.start()
	passes(3 * time.Second)
	f.end()
	f.want(1, 0)
}

func TestFollowerGoesOnWhereItWas(t *testing.T) {
	following(t, func(f *follow) { checkFollower(f, time.Sleep) })
}

// Shards of the stream end every four hours, and the follower then reads their
// children.
func TestLongFollowerReadsParentsBeforeTheirChildren(t *testing.T) {
	following(t, func(f *follow) {
		f.start()
		f.writeFor(20 * time.Hour)
		f.want(1, 400)
		f.end()
		// From the beginning, all at once: the rest of a day, generation by generation.
		f.o.Reader = "another"
		f.start()
		time.Sleep(time.Minute)
		f.end()
		f.want(1, 400)
	})
}

// A follower that comes back after days misses the records that the stream has dropped.
// It continues with the remaining records.
func TestFollowerThatWasAwayForTooLong(t *testing.T) {
	following(t, func(f *follow) {
		f.write(1, 9)
		f.start()
		time.Sleep(3 * time.Second)
		f.end()
		f.want(1, 9)
		f.write(10, 30)
		time.Sleep(30 * time.Hour)
		f.write(31, 40)
		f.start()
		time.Sleep(time.Minute)
		f.end()
		f.want(31, 40)
	})
}

func TestFollowerOutlivesWhatGoesAway(t *testing.T) {
	for name, err := range map[string]error{
		"an expired iterator": &streamtypes.ExpiredIteratorException{},
		"a throttle":          &streamtypes.LimitExceededException{},
		"a network":           errors.New("connection reset by peer"),
		"a server":            &smithy.GenericAPIError{Code: "InternalServerError", Fault: smithy.FaultServer},
	} {
		t.Run(name, func(t *testing.T) {
			following(t, func(f *follow) {
				dice := rand.New(rand.NewPCG(1, 2))
				f.streams.before = func(string) error {
					if dice.IntN(3) == 0 {
						return err
					}
					return nil
				}
				f.write(1, 40)
				f.start()
				time.Sleep(time.Minute)
				f.write(41, 60)
				time.Sleep(time.Minute)
				f.end()
				f.want(1, 60)
			})
		})
	}
}

// A follower survives failures from the first request on, including the request that
// finds the stream.
func TestFollowerThatStartsBadly(t *testing.T) {
	for op, err := range map[string]error{
		"DescribeTable": &types.ThrottlingException{}, "Query": &types.InternalServerError{},
	} {
		t.Run(op, func(t *testing.T) {
			following(t, func(f *follow) {
				left := 3
				f.o.API = faults.Wrap(f.api, faults.On(faults.Before(func(*faults.Call) error {
					if left == 0 {
						return nil
					}
					left--
					return err
				}), op))
				f.write(1, 40)
				f.start()
				time.Sleep(time.Minute)
				f.end()
				f.want(1, 40)
				if left > 0 {
					t.Errorf("%d requests did not fail", left)
				}
			})
		})
	}
}

// A follower that meets trimmed records loses them and no others.
func TestFollowerGoesOnAfterATrim(t *testing.T) {
	following(t, func(f *follow) {
		f.write(1, 40)
		once := sync.Once{}
		f.streams.before = func(op string) (err error) {
			if op == "GetRecords" && f.streams.ops[op] > 6 {
				once.Do(func() { err = &streamtypes.TrimmedDataAccessException{} })
			}
			return err
		}
		f.start()
		time.Sleep(time.Minute)
		f.end()
		f.seen = slices.CompactFunc(f.seen, func(a, b stream.Record) bool { return a.Sequence == b.Sequence })
		got := map[int64]bool{}
		for _, r := range f.seen { // one shard is read from the horizon again
			got[r.New.RefilledAt] = true
		}
		if len(got) != 40 {
			t.Errorf("%d records, want 40", len(slices.Collect(maps.Keys(got))))
		}
	})
}

// A follower that comes back too late says that records are lost, once for each shard with a
// gap, and delivers all that remain. It does not say so again.
func TestFollowerReportsLostRecords(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(f *follow) (first int){
		"no room": func(f *follow) int {
			f.write(41, 400)
			return 390 // those that certainly fit
		},
		"a day": func(f *follow) int {
			time.Sleep(29 * time.Hour) // the shards live for four hours, and their records for a day
			f.write(41, 60)
			time.Sleep(29 * time.Hour)
			f.write(61, 80)
			return 61
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := testbed.NewEngine(t, dynamolite.Options{StreamBytes: 32 << 10})
				testbed.CreateTable(t, db, dynamo.TableOptions{Stream: true})
				f := newFollow(t, db, db)
				lost := map[string]int{}
				f.o.Lost = func(shard string) {
					f.mu.Lock()
					defer f.mu.Unlock()
					lost[shard]++
				}
				f.write(1, 40)
				f.start()
				time.Sleep(time.Minute)
				f.want(1, 40)
				f.end()
				if len(lost) != 0 {
					t.Errorf("%v before anything was lost", lost)
				}
				first := late(f)
				f.start()
				time.Sleep(time.Minute)
				f.end()
				if len(lost) == 0 {
					t.Error("nothing was reported")
				}
				for shard, n := range lost {
					if n != 1 {
						t.Errorf("the gap in %s was reported %d times", shard, n)
					}
				}
				got := f.take()
				for i := first; i <= f.written; i++ {
					if _, found := slices.BinarySearch(got, i); !found {
						t.Errorf("record %d did not come", i)
					}
				}
				clear(lost)
				f.start()
				time.Sleep(time.Minute)
				f.end()
				if len(lost) != 0 {
					t.Errorf("%v, and nothing more was lost", lost)
				}
			})
		})
	}
}

// Records that are not processed come again, and no checkpoint passes them.
func TestRecordsThatAreNotTakenInComeAgain(t *testing.T) {
	following(t, func(f *follow) {
		f.write(1, 40)
		failures := 0
		f.handle = func(records []stream.Record) error {
			for _, r := range records {
				if r.New != nil && r.New.RefilledAt == 20 && failures < 3 {
					failures++
					return errors.New("not now")
				}
			}
			return nil
		}
		f.start()
		time.Sleep(10 * time.Second)
		f.want(1, 40)
		f.handle = func([]stream.Record) error { return errors.New("never") }
		f.write(41, 60)
		time.Sleep(time.Minute)
		f.end()
		f.want(1, 0)
		f.handle = nil
		f.start()
		time.Sleep(10 * time.Second)
		f.end()
		f.want(41, 60)
	})
}

// A checkpoint is a write to the followed table, but it does not cause another
// checkpoint.
func TestCheckpointsDoNotFollowThemselves(t *testing.T) {
	following(t, func(f *follow) {
		meter := dynamo.NewMeter(f.api)
		f.o.API = meter
		f.write(1, 40)
		f.start()
		time.Sleep(50 * time.Minute)
		if n := meter.Totals()["PutItem"].Requests; n == 0 || n > 8 {
			t.Errorf("%d checkpoints of four shards", n)
		}
		f.end()
	})
}

func TestFollowerThatCannotFollow(t *testing.T) {
	t.Parallel()
	denied := &smithy.GenericAPIError{Code: "AccessDeniedException", Fault: smithy.FaultClient}
	for _, c := range []struct {
		name string
		op   string
		err  error
		want error
	}{
		{"no access to the stream", "DescribeStream", denied, store.ErrAccessDenied},
		{"no access to its records", "GetRecords", denied, store.ErrAccessDenied},
		{"no stream any more", "DescribeStream", &streamtypes.ResourceNotFoundException{}, store.ErrNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			following(t, func(f *follow) {
				f.streams.before = func(op string) error {
					if op == c.op {
						return c.err
					}
					return nil
				}
				f.start()
				fixture.WantErr(t, <-f.ended, c.want)
			})
		})
	}
	t.Run("no stream", func(t *testing.T) {
		t.Parallel()
		db := fixture.NewTable(t)
		f := newFollow(t, db, db)
		f.start()
		fixture.WantErr(t, <-f.ended, store.ErrNotFound)
	})
	t.Run("no table", func(t *testing.T) {
		t.Parallel()
		db := fixture.NewTable(t)
		f := newFollow(t, db, db)
		f.o.Table = "nothing"
		f.start()
		fixture.WantErr(t, <-f.ended, store.ErrNotFound)
	})
}

func TestFollowOptions(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	good := stream.Options{API: db, Table: table, Streams: db}
	for i, change := range []func(*stream.Options){
		func(o *stream.Options) { o.Streams = nil },
		func(o *stream.Options) { o.API = nil },
		func(o *stream.Options) { o.Reader = "a/b" },
		func(o *stream.Options) { o.Batch = 1001 },
		func(o *stream.Options) { o.Poll = -1 },
	} {
		o := good
		change(&o)
		if _, err := stream.NewFollower(o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("change %d: %v", i, fmt.Sprint(err))
		}
	}
	if _, err := stream.NewFollower(good); err != nil {
		t.Error(err)
	}
}

// A follower reads a backlog without a pause, whether pages end at their number of
// records or at their size.
func TestFollowerDoesNotDawdle(t *testing.T) {
	for _, batch := range []int{7, stream.DefaultBatch} {
		t.Run(strconv.Itoa(batch), func(t *testing.T) {
			following(t, func(f *follow) {
				f.o.Batch = batch
				big := schema.S(strings.Repeat("x", 40_000))
				for i := range 400 {
					fixture.Put(t, f.api, schema.Item{
						"PK": schema.S("ns/BUCKET#u" + strconv.Itoa(i%9) + "#r#0"), "SK": schema.S(schema.StateSK), schema.RF: schema.N(int64(i)), "ballast": big,
					})
				}
				f.start()
				time.Sleep(10 * time.Millisecond)
				if got := len(f.take()); got != 400 {
					t.Errorf("%d records at once, want 400", got)
				}
				f.end()
			})
		})
	}
}
