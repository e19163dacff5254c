package benchmarks_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The defaults give a first impression. The documents' figures are measured with higher
// values: see docs/measurements/engine.md.
var (
	manyItems   = flag.Int("engine.items", 20_000, "how many items the large tables of the engine have")
	sliceTime   = flag.Duration("engine.slice", 60*time.Millisecond, "how long each side of a comparison works before the next one does")
	sliceRounds = flag.Int("engine.rounds", 3, "how often each side of a comparison works")
	profileDir  = flag.String("engine.profiles", "", "directory for the CPU profiles of the processes that are started; default: none are made")
)

// items is the part of the engine and of the SDK's client that the benchmarks use.
type items interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

type attributes = map[string]types.AttributeValue

func text(s string) types.AttributeValue   { return &types.AttributeValueMemberS{Value: s} }
func number(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }

// keyOf is the key of the i-th item.
func keyOf(i int) attributes {
	return attributes{"PK": text(fmt.Sprintf("ENTITY#%08d", i)), "SK": text("#BUCKET#gpt-4#0")}
}

// The kinds of items. All have the attributes that hotUpdate writes.
var (
	// small has 7 attributes.
	small = shape{}
	// medium has 10 attributes and 400 bytes, as AWS counts them.
	medium = shape{"en": text("user-00000000"), "re": text("gpt-4"), "pd": text(strings.Repeat("x", 292))}
	// wide has 25 attributes.
	wide = func() shape {
		s := shape{}
		for i := range 18 {
			s[fmt.Sprintf("b_l%d_tk", i)] = number("900000000000000000")
		}
		return s
	}()
)

// A shape is the attributes of an item besides its key, rf, tk, tc, cp and ra.
type shape attributes

// item is the i-th item of the shape.
func (s shape) item(i int) attributes {
	item := keyOf(i)
	for _, name := range []string{"rf", "tk", "tc", "cp", "ra"} {
		item[name] = number("1790000000123")
	}
	maps.Copy(item, s)
	return item
}

// hotUpdate is a token bucket's update of the i-th item. Values that differ between calls
// are made for each call.
func hotUpdate(i int) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: keyOf(i),
		UpdateExpression:          aws.String("SET #rf = :now ADD #tk :d, #tc :c"),
		ConditionExpression:       aws.String("attribute_exists(#pk) AND #tk >= :min"),
		ExpressionAttributeNames:  hotNames,
		ExpressionAttributeValues: attributes{":now": number("1800000000456"), ":d": number("-1"), ":c": number("1"), ":min": number("1")},
		ReturnValues:              types.ReturnValueAllNew, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

var hotNames = map[string]string{"#rf": "rf", "#tk": "tk", "#tc": "tc", "#pk": "PK"}

// wideUpdate is an update of a wide item: a condition of four terms, four additions, and
// the whole new item as the answer.
func wideUpdate(i int) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: keyOf(i),
		UpdateExpression:         aws.String("ADD #t0 :d, #c0 :c, #t1 :d, #c1 :c"),
		ConditionExpression:      aws.String("attribute_exists(#pk) AND #t0 >= :min AND #t1 >= :min AND #rf <= :now"),
		ExpressionAttributeNames: wideNames,
		ExpressionAttributeValues: attributes{
			":now": number("1800000000456"), ":d": number("-1"), ":c": number("1"), ":min": number("1"),
		},
		ReturnValues: types.ReturnValueAllNew,
	}
}

var wideNames = map[string]string{
	"#rf": "rf", "#pk": "PK", "#t0": "b_l0_tk", "#c0": "b_l1_tk", "#t1": "b_l2_tk", "#c1": "b_l3_tk",
}

// fill creates the table and its items. With an index, every item has an entry with its
// keys in it.
func fill(ctx context.Context, api items, s shape, n int, indexed bool) error {
	in := &dynamodb.CreateTableInput{
		TableName: aws.String(table), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            keySchema("PK", "SK"),
		AttributeDefinitions: []types.AttributeDefinition{stringNamed("PK"), stringNamed("SK")},
	}
	if indexed {
		in.AttributeDefinitions = append(in.AttributeDefinitions, stringNamed("re"), stringNamed("en"))
		in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{{
			IndexName: aws.String("by_resource"), KeySchema: keySchema("re", "en"),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}}
	}
	if _, err := api.CreateTable(ctx, in); err != nil {
		return err
	}
	const batch, loaders = 25, 8 // a batch waits for the disk once
	var wg sync.WaitGroup
	errs := make([]error, loaders)
	for loader := range loaders {
		wg.Go(func() {
			for from := loader * batch; from < n && errs[loader] == nil; from += loaders * batch {
				errs[loader] = put(ctx, api, s, from, min(from+batch, n))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// put writes the items from one number up to another, at most 25.
func put(ctx context.Context, api items, s shape, from, to int) error {
	var requests []types.WriteRequest
	for i := from; i < to; i++ {
		requests = append(requests, types.WriteRequest{PutRequest: &types.PutRequest{Item: s.item(i)}})
	}
	out, err := api.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: requests}})
	if err == nil && len(out.UnprocessedItems) > 0 {
		err = fmt.Errorf("%d items of a batch were not written", len(out.UnprocessedItems[table]))
	}
	return err
}

func keySchema(hash, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(hash), KeyType: types.KeyTypeHash}, {AttributeName: aws.String(sort), KeyType: types.KeyTypeRange},
	}
}

func stringNamed(name string) types.AttributeDefinition {
	return types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS}
}

// A burst is the work of some clients in an interval.
type burst struct {
	elapsed time.Duration
	took    []time.Duration // each call, in ascending order
}

// drive lets each client repeat do until the time is over, at least once. Every client has
// its own source of random numbers.
func drive(clients int, long time.Duration, do func(*rand.Rand) error) (burst, error) {
	took, errs := make([][]time.Duration, clients), make([]error, clients)
	var wg sync.WaitGroup
	start := time.Now()
	for c := range clients {
		random := rand.New(rand.NewPCG(uint64(start.UnixNano()), uint64(c))) //nolint:gosec // chooses keys
		wg.Go(func() {
			for begun := time.Now(); ; {
				if errs[c] = do(random); errs[c] != nil {
					return
				}
				ended := time.Now()
				took[c] = append(took[c], ended.Sub(begun))
				if begun = ended; begun.Sub(start) >= long {
					return
				}
			}
		})
	}
	wg.Wait()
	b := burst{elapsed: time.Since(start), took: slices.Concat(took...)}
	slices.Sort(b.took)
	return b, errors.Join(errs...)
}

func (b burst) rate() float64 { return float64(len(b.took)) / b.elapsed.Seconds() }

// cost is the inverse of the rate, in seconds: less is better, as with latencies.
func (b burst) cost() float64 { return 1 / b.rate() }

func (b burst) quantile(q float64) float64 { return float64(b.took[int(q*float64(len(b.took)-1))]) }
func (b burst) p50() float64               { return b.quantile(0.50) }
func (b burst) p99() float64               { return b.quantile(0.99) }

// A side is one of the compared sides.
type side struct {
	name   string
	work   func() (burst, error)
	bursts []burst
}

// alternate lets the sides work in turn. It rotates their order, so that other load on the
// machine affects all alike.
func alternate(tb testing.TB, sides ...*side) {
	tb.Helper()
	for round := range *sliceRounds {
		for i := range sides {
			s := sides[(round+i)%len(sides)]
			b, err := s.work()
			if err != nil {
				tb.Fatalf("%s: %v", s.name, err)
			}
			s.bursts = append(s.bursts, b)
		}
	}
}

// median is the median of a quantity over the bursts of a side.
func (s *side) median(of func(burst) float64) float64 { return s.estimate(of).median }

func (s *side) estimate(of func(burst) float64) estimate {
	var all []float64
	for _, b := range s.bursts {
		all = append(all, of(b))
	}
	return estimateOf(all)
}

// to is the ratio to another side: the median of the ratios of neighbouring bursts, with
// its interval.
func (s *side) to(base *side, of func(burst) float64) estimate {
	var all []float64
	for i := range s.bursts {
		all = append(all, of(s.bursts[i])/of(base.bursts[i]))
	}
	return estimateOf(all)
}

// judge compares an estimate with a target: the target is missed only if the whole interval
// lies above it.
func judge(e estimate, most float64) verdict {
	switch {
	case e.low > most:
		return missed
	case e.high <= most:
		return met
	}
	return undecided
}

// hold fails the test if a target is missed, after enough rounds: other load on the machine
// may last for a few.
func hold(tb testing.TB, what string, e estimate, most float64) verdict {
	tb.Helper()
	v := judge(e, most)
	if v == missed && *sliceRounds >= fewestRounds {
		tb.Errorf("%s: %.3f (%.3f – %.3f), want at most %.3g", what, e.median, e.low, e.high, most)
	}
	return v
}

func (e estimate) String() string {
	return fmt.Sprintf("%.2f (%.2f – %.2f)", e.median, e.low, e.high)
}

// A sheet is a table that is printed when it is complete, with the machine's load at the
// time.
type sheet struct {
	text strings.Builder
	w    *tabwriter.Writer
}

func newSheet(columns ...string) *sheet {
	s := &sheet{}
	s.w = tabwriter.NewWriter(&s.text, 0, 0, 2, ' ', 0)
	s.row(columns...)
	return s
}

func (s *sheet) row(cells ...string) { fmt.Fprintln(s.w, strings.Join(cells, "\t")+"\t") }

// print also prints how the figures were taken.
func (s *sheet) print(tb testing.TB, how string) {
	tb.Helper()
	_ = s.w.Flush()
	tb.Logf("%s, load average %s\n%s", how, loadAverage(), s.text.String())
}

// inSlices describes how most figures are taken.
func inSlices() string {
	return fmt.Sprintf("medians of %d slices of %v in turn", *sliceRounds, *sliceTime)
}

// loadAverage is the load average of the last minutes.
func loadAverage() string {
	all, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(all))[:3], " ")
}

// latency formats nanoseconds in a unit that leaves about three digits.
func latency(ns float64) string {
	if ns >= 1e6 {
		return fmt.Sprintf("%.2f ms", ns/1e6)
	}
	return fmt.Sprintf("%.1f µs", ns/1e3)
}

func perSecond(rate float64) string { return fmt.Sprintf("%.0f", rate) }
func megabytes(n float64) string    { return fmt.Sprintf("%.0f MB", n/1e6) }

// times is the estimate of n times the quantity.
func (e estimate) times(n float64) estimate { return estimate{e.median * n, e.low * n, e.high * n} }
