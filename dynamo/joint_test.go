package dynamo_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// shardsOf makes n shards of a bucket and returns their images.
func shardsOf(t *testing.T, s *dynamo.Store, entity string, n int) []*store.Image {
	t.Helper()
	params := store.Params{Capacity: 1_000_000_000, Amount: 1000, Period: 1000}
	limit := func(name string) store.NewLimit {
		return store.NewLimit{NamedParams: store.NamedParams{Limit: name, Params: params}, Tokens: params.Capacity}
	}
	var images []*store.Image
	for i := range n {
		out, err := s.Create(t.Context(), &store.Create{
			Bucket: store.Bucket{Entity: entity, Resource: "gpt-4", Shard: i},
			Now:    start.UnixMilli(), ShardCount: n, Limits: []store.NewLimit{limit("rpm")}, Writes: limit(schema.WCU),
		})
		if err != nil || !out.Applied {
			t.Fatalf("shard %d: %+v, %v", i, out, err)
		}
		images = append(images, out.Image)
	}
	return images
}

// oneToken returns a refill that debits one token and moves no stamp.
func oneToken(img *store.Image) *store.Refill {
	const token = 1000
	change := func(name string) store.Change {
		return store.Change{Limit: name, Debit: token, AtLeast: token, AtMost: 1_000_000_000}
	}
	return &store.Refill{
		Bucket: img.Bucket, Seen: img, RefilledAt: img.RefilledAt, Writes: change(schema.WCU), Changes: []store.Change{change("rpm")},
	}
}

// split returns the split of a single shard into two.
func split(img *store.Image) *store.Birth {
	donor := oneToken(img)
	donor.ShardCount = 2
	b := img.Bucket
	b.Shard = 1
	return &store.Birth{
		Create: store.Create{
			Bucket: b, Now: img.RefilledAt, ShardCount: 2,
			Writes: store.NewLimit{NamedParams: store.NamedParams{Limit: schema.WCU, Params: *img.Writes.Params}},
		},
		Donor: donor, Sibling: 0,
	}
}

func takeToken(t *testing.T, s *dynamo.Store, b store.Bucket) error {
	t.Helper()
	out, err := s.Take(t.Context(), &store.Take{Bucket: b, Now: start.UnixMilli(), Debits: []store.Debit{
		{Amount: store.Amount{Limit: "rpm", Milli: 1000}, AtMost: 1_000_000_000},
	}})
	if err == nil && !out.Applied {
		t.Fatalf("refused by %+v", out.Image)
	}
	return err
}

// exhaust takes from buckets in turn until the engine throttles one of them. The engine
// must first admit at least so many takes.
func exhaust(t *testing.T, s *dynamo.Store, atLeast int, images ...*store.Image) error {
	t.Helper()
	for i := range 10 * atLeast {
		if err := takeToken(t, s, images[i%len(images)].Bucket); err != nil {
			if i < atLeast {
				t.Fatalf("take %d: %v", i, err)
			}
			return err
		}
	}
	t.Fatal("nothing was throttled")
	return nil
}

func wantThrottled(t *testing.T, what string, err error, hot bool) {
	t.Helper()
	if !errors.Is(err, store.ErrThrottled) || !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrHotPartition) != hot {
		t.Errorf("%s: got %v, want it throttled, by a hot partition: %t", what, err, hot)
	}
}

// A shard that has used up its partition is told apart from an index that many shards
// use. The test runs on the engine with AWS's limits and a clock that stands still.
// Over HTTP, the partitions are smaller.
func TestHotPartitions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		perPartition int
		open         func(*testing.T, dynamolite.Options) dynamo.API
	}{
		"in process": {1000, func(_ *testing.T, o dynamolite.Options) dynamo.API { return dynamolite.New(o) }},
		"over HTTP":  {200, func(t *testing.T, o dynamolite.Options) dynamo.API { t.Helper(); return overHTTP(t, o) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := dynamolite.AWSLimits()
			limits.PartitionWriteUnits = int64(c.perPartition)
			api := c.open(t, dynamolite.Options{Limits: limits, Now: now})
			for table, projection := range map[string]dynamo.Projection{"hot": dynamo.ProjectKeys, "all": dynamo.ProjectAll} {
				if err := dynamo.CreateTable(t.Context(), api, dynamo.TableOptions{Name: table, GSI2Projection: projection}); err != nil {
					t.Fatal(err)
				}
			}
			s, err := dynamo.Open(t.Context(), dynamo.Following(dynamo.Options{API: api, Table: "hot", Now: now}))
			if err != nil {
				t.Fatal(err)
			}
			img := shardsOf(t, s, "user", 1)[0]
			neighbor := shardsOf(t, s, "neighbor", 1)[0]
			wantThrottled(t, "take", exhaust(t, s, c.perPartition-100, img), true)
			wantThrottled(t, "refill", errOf(s.Refill(t.Context(), oneToken(img))), true)
			wantThrottled(t, "adjust", errOf(s.Adjust(t.Context(), &store.Adjust{Bucket: img.Bucket, Seen: img, Deltas: []store.Delta{
				{Limit: "rpm", Tokens: -1, Consumed: 1, AtMost: 1_000_000_000},
			}})), true)
			// A cancelled transaction has no field for the reason.
			wantThrottled(t, "gather", errOf(s.Gather(t.Context(), []*store.Refill{oneToken(neighbor), oneToken(img)})), false)
			wantThrottled(t, "bear", errOf(s.Bear(t.Context(), split(img))), false)
			if err := takeToken(t, s, neighbor.Bucket); err != nil {
				t.Errorf("a neighbor: %v", err)
			}

			s, err = dynamo.Open(t.Context(), dynamo.Following(dynamo.Options{API: api, Table: "all", Now: now}))
			if err != nil {
				t.Fatal(err)
			}
			var crowd []*store.Image
			for i := range 20 {
				crowd = append(crowd, shardsOf(t, s, fmt.Sprintf("user-%d", i), 1)...)
			}
			wantThrottled(t, "take by way of an index", exhaust(t, s, c.perPartition-100, crowd...), false)
		})
	}
}

// reasons returns the reasons of a cancelled transaction. An item stands for an item
// that refused.
func reasons(of ...any) *types.TransactionCanceledException {
	err := &types.TransactionCanceledException{}
	for _, r := range of {
		switch r := r.(type) {
		case string:
			err.CancellationReasons = append(err.CancellationReasons, types.CancellationReason{Code: &r})
		case schema.Item:
			err.CancellationReasons = append(err.CancellationReasons, types.CancellationReason{Code: aws.String("ConditionalCheckFailed"), Item: r})
		}
	}
	return err
}

// The outcomes of both items of a transaction are told apart, even if the transaction
// met several errors.
func TestCancelledTransactions(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	images := shardsOf(t, s, "user", 2)
	_, ns := s.Namespace()
	second := fixture.Get(t, f, schema.BucketKey(ns, images[1].Bucket))
	damaged := schema.Item{}
	refused, tooBusy := store.Refusal{Refused: true}, store.Refusal{Throttled: true}
	for name, c := range map[string]struct {
		met  error
		want []store.Refusal
		err  error
	}{
		"the second refuses":                 {reasons("None", second), []store.Refusal{{}, {Refused: true, Image: images[1]}}, nil},
		"both refuse":                        {reasons(schema.Item(nil), second), []store.Refusal{refused, {Refused: true, Image: images[1]}}, nil},
		"a conflict, and the second refuses": {reasons("TransactionConflict", second), []store.Refusal{{}, {Refused: true, Image: images[1]}}, nil},
		"throttled, and the second refuses":  {reasons("ThrottlingError", schema.Item(nil)), []store.Refusal{tooBusy, refused}, nil},
		"the first refuses, and a conflict":  {reasons(schema.Item(nil), "TransactionConflict"), []store.Refusal{refused, {}}, nil},
		"fewer reasons than writes":          {reasons(schema.Item(nil)), []store.Refusal{refused, {}}, nil},
		"a conflict":                         {reasons("None", "TransactionConflict"), nil, store.ErrConflict},
		"a conflict, and throttled":          {reasons("TransactionConflict", "ThrottlingError"), []store.Refusal{{}, tooBusy}, store.ErrThrottled},
		"throttled, and a conflict":          {reasons("ProvisionedThroughputExceeded", "TransactionConflict"), []store.Refusal{tooBusy, {}}, store.ErrThrottled},
		"the second refuses, and is damaged": {reasons("None", damaged), nil, store.ErrCorrupt},
		"throttled as a whole": {
			&types.ThrottlingException{ThrottlingReasons: because("TableWriteKeyRangeThroughputExceeded")}, nil, store.ErrHotPartition,
		},
		"no such table": {&types.ResourceNotFoundException{}, nil, store.ErrNotFound},
	} {
		f.Set(faults.Before(func(*faults.Call) error { return wrapped(c.met) }))
		f.Take()
		gathered, err := s.Gather(t.Context(), []*store.Refill{oneToken(images[0]), oneToken(images[1])})
		if !errors.Is(err, c.err) || len(f.Ops()) != 1 {
			t.Errorf("%s: got error %v, want %v; requests %q", name, err, c.err, f.Ops())
		}
		merged, err := s.Merge(t.Context(), halving(images))
		if !errors.Is(err, c.err) {
			t.Errorf("%s: got error %v, want %v", name, err, c.err)
		}
		born, err := s.Bear(t.Context(), split(images[0]))
		if !errors.Is(err, c.err) {
			t.Errorf("%s: got error %v, want %v", name, err, c.err)
		}
		for _, got := range []store.Joint{gathered, merged, born} {
			if diff := cmp.Diff(store.Joint{Refusals: c.want}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if c.err != nil && !strings.Contains(err.Error(), "bear "+schema.BucketKey(ns, store.Bucket{Entity: "user", Resource: "gpt-4", Shard: 1}).PK) &&
			!errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v does not say what was being done", name, err)
		}
	}
}

// A script is a transport that answers attempts one after the other, and keeps the
// requests.
type script struct {
	answers []any // an error, or an answer
	bodies  []string
}

func (s *script) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.bodies = append(s.bodies, string(body))
	next := s.answers[min(len(s.bodies), len(s.answers))-1]
	if err, fails := next.(error); fails {
		return nil, err
	}
	a := next.(answer)
	return a.Do(r)
}

// A transaction is sent again, under the same token, only if its answer was lost.
func TestTransactionsThroughTheSDKClient(t *testing.T) {
	t.Parallel()
	done := answer{status: 200, body: "{}"}
	failure := func(code string) answer { return answer{status: 400, body: exception(code)} }
	cancelledBy := func(code string) answer {
		return answer{status: 400, body: `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException",` +
			`"CancellationReasons":[{"Code":"` + code + `"}]}`}
	}
	lost, broken := reset(), answer{status: 500, body: exception("InternalServerError")}
	for name, c := range map[string]struct {
		answers []any
		sent    int
		want    []error // errors that translate distinguishes; nil: applied
		refused bool
	}{
		"applied":                           {[]any{done}, 1, nil, false},
		"lost, then applied":                {[]any{lost, done}, 2, nil, false},
		"a server fault, then applied":      {[]any{broken, done}, 2, nil, false},
		"lost, in progress, then applied":   {[]any{lost, failure("TransactionInProgressException"), done}, 3, nil, false},
		"unreachable, then applied":         {[]any{dial(syscall.ECONNREFUSED), done}, 2, nil, false},
		"lost three times":                  {[]any{lost}, 3, isUnavailable, false},
		"lost, and then always in progress": {[]any{lost, failure("TransactionInProgressException")}, 3, isUnavailable, false},
		"refused":                           {[]any{cancelledBy("ConditionalCheckFailed")}, 1, nil, true},
		"conflict":                          {[]any{cancelledBy("TransactionConflict")}, 1, isConflict, false},
		"throttled":                         {[]any{cancelledBy("ThrottlingError")}, 1, isThrottled, false},
		"throttled as a whole":              {[]any{failure("ThrottlingException")}, 1, isThrottled, false},
		// The lost attempt may be applied after the refused one.
		"lost, then a conflict":        {[]any{lost, cancelledBy("TransactionConflict")}, 2, isUnavailable, false},
		"lost, then throttled":         {[]any{lost, cancelledBy("ThrottlingError")}, 2, isUnavailable, false},
		"unreachable, then a conflict": {[]any{dial(syscall.ECONNREFUSED), cancelledBy("TransactionConflict")}, 2, isConflict, false},
		"lost, then denied":            {[]any{lost, failure("AccessDeniedException")}, 2, isDenied, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			opened := answer{status: 200, body: `{"Responses": {"limits": [{"PK": {"S": "_/SYSTEM#"}, "SK": {"S": "#NAMESPACE#default"}, ` +
				`"namespace_id": {"S": "ns1"}, "status": {"S": "active"}}]}}`}
			wire := &script{answers: append([]any{opened}, c.answers...)}
			s := fixture.OpenStore(t, dynamodb.New(dynamodb.Options{
				Region: "us-east-1", HTTPClient: wire, Credentials: static, BaseEndpoint: aws.String("http://localhost"),
			}))
			wire.bodies, wire.answers = nil, c.answers
			begun := time.Now()
			img := &store.Image{Bucket: store.Bucket{Entity: "user", Resource: "gpt-4"}, ShardCount: 1}
			j, err := s.Gather(t.Context(), []*store.Refill{oneToken(img)})
			for _, sentinel := range all {
				if want := contains(c.want, sentinel); errors.Is(err, sentinel) != want {
					t.Errorf("%s: %v is %v: %v", name, err, sentinel, !want)
				}
			}
			if err != nil && len(c.want) == 0 || j.Applied != (err == nil && !c.refused) || c.refused != slices.ContainsFunc(j.Refusals, func(r store.Refusal) bool { return r.Refused }) {
				t.Errorf("%s: got %+v, %v", name, j, err)
			}
			if len(wire.bodies) != c.sent {
				t.Errorf("%s: sent %d times, want %d", name, len(wire.bodies), c.sent)
			}
			for _, body := range wire.bodies {
				if body != wire.bodies[0] || !strings.Contains(body, `"ClientRequestToken":"`) {
					t.Errorf("%s: sent %s, want a token, and the same each time", name, body)
				}
			}
			if waited := time.Since(begun); waited > 100*time.Millisecond {
				t.Errorf("%s: waited %v", name, waited)
			}
		})
	}
}

func contains(errs []error, want error) bool {
	for _, err := range errs {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}
