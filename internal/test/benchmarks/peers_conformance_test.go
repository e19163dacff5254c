//go:build conformance

package benchmarks_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/mennanov/limiters"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// A peerLoad is a number of concurrent callers. Each starts its next acquire when it has
// the answer. All use one entity, or each uses its own.
type peerLoad struct {
	callers int
	spread  bool
	// slow means that the server takes most of the time: the result is reported, and no
	// target applies.
	slow bool
}

func (l peerLoad) String() string {
	if l.spread {
		return fmt.Sprintf("%d, an entity each", l.callers)
	}
	return strconv.Itoa(l.callers)
}

// mostCallers is the number of entities of every contender.
const mostCallers = 64

// A peerBurst is the work of a contender's callers in an interval.
type peerBurst struct {
	burst
	cpu    time.Duration // of the client's process, including garbage collection
	allocs uint64        // 0 if not counted
}

func (b peerBurst) costOfOne() float64   { return b.cost() }
func (b peerBurst) medianTime() float64  { return b.p50() }
func (b peerBurst) slowTime() float64    { return b.p99() }
func (b peerBurst) cpuOfOne() float64    { return float64(b.cpu) / float64(len(b.took)) }
func (b peerBurst) allocsOfOne() float64 { return float64(b.allocs) / float64(len(b.took)) }

// A contender is a client with warm buckets.
type contender struct {
	name string
	// hot are the operations of a warm acquire.
	hot []string
	// start creates the client and its buckets.
	start func(t *testing.T, endpoint string) func(peerLoad) (peerBurst, error)
}

var (
	contenderOurs     = contender{"ours", []string{"UpdateItem"}, startOurs}
	contenderLimiters = contender{"mennanov/limiters", []string{"GetItem", "PutItem"}, startLimiters}
	contenderPython   = contender{"Python peer", []string{"UpdateItem"}, startPython}
)

// TestPeers compares a warm acquire through this library with other libraries, for one
// caller at a time. The others are the Python package that shares the table, and the token
// bucket of github.com/mennanov/limiters, which reads its item and writes it back. They
// take turns. With canned answers the result is mostly the clients' cost; on DynamoDB Local
// it is the server's.
//
// Not parallel: other work would be measured too.
func TestPeers(t *testing.T) {
	if raceEnabled {
		t.Fatal("under the race detector ratios say nothing: run without -race")
	}
	contenders := []contender{contenderOurs, contenderLimiters, contenderPython}
	oneEntity := []peerLoad{{callers: 1}, {callers: 8}, {callers: mostCallers}}
	t.Run("canned", func(t *testing.T) {
		var sides []*peerSide
		for _, c := range contenders {
			server := startProcess(t, "canner")
			endpoint := ask[string](t, server, orders{Canner: true})
			makePeerTables(t, endpoint)
			side := &peerSide{name: c.name, work: c.start(t, endpoint)}
			ask[int64](t, server, orders{Can: c.hot})
			side.count = func() int64 { return ask[int64](t, server, orders{Count: true}) }
			sides = append(sides, side)
		}
		contend(t, sides, append(oneEntity, peerLoad{callers: mostCallers, spread: true}))
	})
	t.Run("DynamoDB Local", func(t *testing.T) {
		endpoint := localEndpoint(t)
		makePeerTables(t, endpoint)
		var sides []*peerSide
		for _, c := range contenders {
			sides = append(sides, &peerSide{name: c.name, work: c.start(t, endpoint)})
		}
		for range 20 { // lets Java compile the hot code
			for _, side := range sides {
				if _, err := side.work(peerLoad{callers: 8}); err != nil {
					t.Fatalf("%s: %v", side.name, err)
				}
			}
		}
		contend(t, sides, append(oneEntity, peerLoad{callers: mostCallers, spread: true, slow: true}))
	})
}

// A peerSide is a measured contender.
type peerSide struct {
	name   string
	work   func(peerLoad) (peerBurst, error)
	bursts []peerBurst
	count  func() int64 // number of requests to the server; nil if it does not count
}

// alternatePeers lets the sides work in turn, in rotating order.
func alternatePeers(t *testing.T, sides []*peerSide, load peerLoad) {
	t.Helper()
	for round := range *sliceRounds {
		for i := range sides {
			s := sides[(round+i)%len(sides)]
			b, err := s.work(load)
			if err != nil {
				t.Fatalf("%s, %v callers: %v", s.name, load, err)
			}
			s.bursts = append(s.bursts, b)
		}
	}
}

func (s *peerSide) median(of func(peerBurst) float64) float64 {
	var all []float64
	for _, b := range s.bursts {
		all = append(all, of(b))
	}
	return estimateOf(all).median
}

// to is the ratio to another side: the median of the ratios of neighbouring bursts, with
// its interval.
func (s *peerSide) to(base *peerSide, of func(peerBurst) float64) estimate {
	var all []float64
	for i := range s.bursts {
		all = append(all, of(s.bursts[i])/of(base.bursts[i]))
	}
	return estimateOf(all)
}

func (s *peerSide) calls() (n int) {
	for _, b := range s.bursts {
		n += len(b.took)
	}
	return n
}

// contend measures the sides under each load and prints the comparison. The first side is
// ours, and must take less time and less CPU per acquire than every other.
func contend(t *testing.T, sides []*peerSide, loads []peerLoad) {
	t.Helper()
	s := newSheet("client", "callers", "acquires/s", "p50", "p99", "client's CPU", "allocations", "requests",
		"ours, time of an acquire to its", "target", "CPU to its", "target")
	for _, load := range loads {
		requests := make([]int64, len(sides))
		for i, side := range sides {
			if _, err := side.work(load); err != nil { // connects
				t.Fatalf("%s, %v callers: %v", side.name, load, err)
			}
			if side.bursts = nil; side.count != nil {
				requests[i] = side.count()
			}
		}
		alternatePeers(t, sides, load)
		ours := sides[0]
		for i, side := range sides {
			row := []string{
				side.name, load.String(), perSecond(1 / side.median(peerBurst.costOfOne)), latency(side.median(peerBurst.medianTime)),
				latency(side.median(peerBurst.slowTime)), latency(side.median(peerBurst.cpuOfOne)), "", "", "", "", "", "",
			}
			if allocs := side.median(peerBurst.allocsOfOne); allocs > 0 {
				row[6] = fmt.Sprintf("%.0f", allocs)
			}
			if side.count != nil {
				row[7] = fmt.Sprintf("%.3f", float64(side.count()-requests[i])/float64(side.calls()))
			}
			if side != ours {
				what := fmt.Sprintf("%s, %v callers: ", side.name, load)
				cost, cpu := ours.to(side, peerBurst.costOfOne), ours.to(side, peerBurst.cpuOfOne)
				row[8] = cost.String()
				if !load.slow {
					row[9] = "≤ 1 " + string(hold(t, what+"the time of an acquire", cost, 1))
				}
				row[10], row[11] = cpu.String(), "≤ 1 "+string(hold(t, what+"the client's CPU", cpu, 1))
			}
			s.row(row...)
		}
	}
	s.print(t, inSlices())
}

// makePeerTables creates our table, which the Python peer uses too, and the table of
// mennanov/limiters.
func makePeerTables(t *testing.T, endpoint string) {
	t.Helper()
	client := engineClient(endpoint, 1)
	if err := dynamo.CreateTable(t.Context(), client, dynamo.TableOptions{Name: table}); err != nil {
		t.Fatal(err)
	}
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String(bucketTable), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            keySchema("PK", "SK")[:1],
		AttributeDefinitions: []types.AttributeDefinition{stringNamed("PK")},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// bucketTable is the table of mennanov/limiters.
const bucketTable = "buckets"

// peerEntities are the entities of a contender.
func peerEntities(of string) []string {
	all := make([]string, mostCallers)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%03d", of, i)
	}
	return all
}

// inProcessBursts runs the bursts of a client in this process that acquires with acquire.
func inProcessBursts(t *testing.T, entities []string, acquire func(entity string) error) func(peerLoad) (peerBurst, error) {
	t.Helper()
	for _, entity := range entities {
		for range 2 {
			if err := acquire(entity); err != nil {
				t.Fatal(err)
			}
		}
	}
	return func(l peerLoad) (b peerBurst, err error) {
		idle := make(chan string, mostCallers) // entities without an acquire in progress
		for _, entity := range entities {
			if idle <- entity; !l.spread {
				break
			}
		}
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		cpu := cpuTime(t)
		b.burst, err = drive(l.callers, *sliceTime, func(*rand.Rand) error {
			if !l.spread {
				return acquire(entities[0])
			}
			entity := <-idle
			defer func() { idle <- entity }()
			return acquire(entity)
		})
		b.cpu = cpuTime(t) - cpu
		runtime.ReadMemStats(&after)
		b.allocs = after.Mallocs - before.Mallocs
		return b, err
	}
}

// startOurs starts the limiter on its store, through the SDK's client.
func startOurs(t *testing.T, endpoint string) func(peerLoad) (peerBurst, error) {
	t.Helper()
	ctx := t.Context()
	client := engineClient(endpoint, mostCallers)
	store, err := dynamo.Open(ctx, dynamo.Options{API: client, Table: table})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.SetLimits(ctx, limiter.ConfigKey{Resource: resource}, []limiter.Limit{load{}.limit(peerLimit)}); err != nil {
		t.Fatal(err)
	}
	l := newLimiter(t, client)
	acquire := func(entity string, amount int64) error {
		lease, err := l.Acquire(ctx, request(entity, []string{peerLimit}, amount))
		if err != nil {
			return err
		}
		return lease.Commit(ctx)
	}
	entities := peerEntities("go")
	for _, entity := range entities {
		if err := acquire(entity, load{}.opening()); err != nil {
			t.Fatal(err)
		}
	}
	return inProcessBursts(t, entities, func(entity string) error { return acquire(entity, amount) })
}

// peerLimit is the only limit.
const peerLimit = "rpm"

// startLimiters starts one bucket of mennanov/limiters for each entity. Instead of a lock,
// it lets a write fail if another process was faster. That is the least it needs to be
// exact.
func startLimiters(t *testing.T, endpoint string) func(peerLoad) (peerBurst, error) {
	t.Helper()
	ctx := t.Context()
	client := engineClient(endpoint, mostCallers)
	properties := limiters.DynamoDBTableProperties{TableName: bucketTable, PartitionKeyName: "PK", TTLFieldName: "ttl"}
	buckets := make(map[string]*limiters.TokenBucket)
	entities := peerEntities("limiters")
	for _, entity := range entities {
		buckets[entity] = limiters.NewTokenBucket(capacity, time.Minute/amount, limiters.NewLockNoop(),
			limiters.NewTokenBucketDynamoDB(client, entity, properties, 24*time.Hour, true),
			limiters.NewSystemClock(), limiters.NewStdLogger())
	}
	return inProcessBursts(t, entities, func(entity string) error {
		_, err := buckets[entity].Take(ctx, amount)
		return err
	})
}
