package benchmarks_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

const (
	table    = "limits"
	resource = "api"
	probe    = "probe" // the entity whose requests are recorded
	parent   = "parent"

	// amount is the consumption of each limit.
	amount = 5
	// capacity of every limit is far more than a run can use.
	capacity = 1_000_000_000_000
)

// A load describes a pair's buckets.
type load struct {
	limits int
	// full makes the limits earn faster than they are used. Then a bucket is full at every
	// request, and every acquire is a refill-and-take. Otherwise balances are half full,
	// and an acquire is a take.
	full bool
	// cascades gives the probe a parent.
	cascades bool
}

func (l load) String() string {
	state := "half"
	if l.full {
		state = "full"
	}
	return fmt.Sprintf("limits=%d/bucket=%s", l.limits, state)
}

// limit is one of the limits.
func (l load) limit(name string) limiter.Limit {
	if l.full {
		return limiter.PerSecond(name, 1000*amount)
	}
	return limiter.PerMinute(name, amount, limiter.Burst(capacity))
}

// opening is the amount that the first acquire of an entity takes.
func (l load) opening() int64 {
	if l.full {
		return amount
	}
	return capacity / 2
}

// An engine answers the requests of a pair, through the measured client.
type engine struct {
	name string
	// start creates a table for a load, and returns the client and a recording of an
	// acquire's request.
	start func(tb testing.TB, l load) (dynamo.API, *recording)
	// entities is the number of entities that spreads the load enough: a bucket item takes
	// a thousand writes a second. 0 means only the probe, on engines that keep nothing.
	entities int
	// slice is the number of operations timed at once: enough for several garbage
	// collections. If another process determines the speed, it is enough for an exact time.
	slice int
}

var embedded = engine{
	name: "dynamolite", entities: 2048, slice: 20_000,
	start: func(tb testing.TB, l load) (dynamo.API, *recording) {
		tb.Helper()
		db := dynamolite.New(dynamolite.Options{})
		tb.Cleanup(func() { _ = db.Close() })
		return db, record(tb, db, l)
	},
}

// A pair does the same in two ways, one operation at a time: acquire through the limiter,
// and the update alone.
type pair struct {
	ctx     context.Context //nolint:containedctx // the test's; like a server's requests, it can be cancelled
	limiter *limiter.Limiter
	bare    *bareUpdate
	limits  []string

	acquirers, updaters []string // entities
	acquired, updated   int
}

func newPair(tb testing.TB, e engine, l load) *pair {
	tb.Helper()
	api, rec := e.start(tb, l)
	p := &pair{ctx: tb.Context(), limits: rec.limits, limiter: newLimiter(tb, api)}
	var err error
	if p.bare, err = newBareUpdate(api, probe, rec.sent[0], rec.sent[1], rec.at); err != nil {
		tb.Fatal(err)
	}
	if e.entities == 0 {
		p.acquirers, p.updaters = []string{probe}, []string{probe}
	} else {
		p.open(tb, e.entities, l)
	}
	for range 2 * len(p.acquirers) {
		p.must(tb, p.acquire)
		p.must(tb, p.update)
	}
	return p
}

// open creates the buckets. Those that are written without the limiter get more writes than
// a run uses, because nothing refills them.
func (p *pair) open(tb testing.TB, entities int, l load) {
	tb.Helper()
	other := newLimiter(tb, p.bare.api)
	for i := range entities {
		acquirer, updater := fmt.Sprintf("user-%06d", i), fmt.Sprintf("hand-%06d", i)
		p.acquirers, p.updaters = append(p.acquirers, acquirer), append(p.updaters, updater)
		p.must(tb, func() error {
			_, err := p.limiter.Acquire(p.ctx, request(acquirer, p.limits, l.opening()))
			return err
		})
		p.must(tb, func() error {
			_, err := other.Acquire(p.ctx, request(updater, p.limits, l.opening()))
			return err
		})
		p.must(tb, func() error { return p.bare.fund(p.ctx, updater) })
	}
}

func (p *pair) must(tb testing.TB, do func() error) {
	tb.Helper()
	if err := do(); err != nil {
		tb.Fatal(err)
	}
}

// acquire makes a new request each time, as callers do.
func (p *pair) acquire() error {
	entity := p.acquirers[p.acquired%len(p.acquirers)]
	p.acquired++
	_, err := p.limiter.Acquire(p.ctx, request(entity, p.limits, amount))
	return err
}

func (p *pair) update() error {
	entity := p.updaters[p.updated%len(p.updaters)]
	p.updated++
	return p.bare.do(p.ctx, entity)
}

func request(entity string, limits []string, amount int64) limiter.Request {
	consume := make(map[string]int64, len(limits))
	for _, name := range limits {
		consume[name] = amount
	}
	return limiter.Request{Entity: entity, Resource: resource, Consume: consume}
}

func newLimiter(tb testing.TB, api dynamo.API) *limiter.Limiter {
	tb.Helper()
	store, err := dynamo.Open(tb.Context(), dynamo.Options{API: api, Table: table})
	if err != nil {
		tb.Fatal(err)
	}
	// With so long a life, canned images never expire.
	l, err := limiter.New(store, limiter.Options{TTLMultiplier: 1000})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// A recording holds the requests of two warm acquires of the probe, with different amounts.
type recording struct {
	*recorder
	limits []string
	sent   [2]*dynamodb.UpdateItemInput
	at     time.Time // shortly before the requests
}

// record creates a table on an engine, with the same limits for every entity, and records
// the requests of a limiter.
func record(tb testing.TB, api dynamo.API, ld load) *recording {
	tb.Helper()
	ctx := tb.Context()
	if err := dynamo.CreateTable(ctx, api, dynamo.TableOptions{Name: table}); err != nil {
		tb.Fatal(err)
	}
	rec := &recording{recorder: newRecorder()}
	recorded := rec.on(api)
	store, err := dynamo.Open(ctx, dynamo.Options{API: recorded, Table: table})
	if err != nil {
		tb.Fatal(err)
	}
	var config []limiter.Limit
	for i := range ld.limits {
		rec.limits = append(rec.limits, "l"+strconv.Itoa(i))
		config = append(config, ld.limit(rec.limits[i]))
	}
	if err := store.SetLimits(ctx, limiter.ConfigKey{Resource: resource}, config); err != nil {
		tb.Fatal(err)
	}
	writes := 1
	if ld.cascades {
		writes = 2
		for _, e := range []limiter.Entity{{ID: parent}, {ID: probe, Parent: parent, Cascade: true}} {
			if _, err := store.CreateEntity(ctx, e); err != nil {
				tb.Fatal(err)
			}
		}
	}
	l := newLimiter(tb, recorded)
	acquire := func(amount int64) (requests int) {
		before := rec.requests
		if _, err := l.Acquire(ctx, request(probe, rec.limits, amount)); err != nil {
			tb.Fatal(err)
		}
		return rec.requests - before
	}
	acquire(ld.opening())
	acquire(amount)
	rec.at = time.Now()
	for i := range rec.sent {
		if ld.full {
			time.Sleep(20 * time.Millisecond) // fills the bucket
		}
		if n := acquire(amount + int64(i)); n != writes {
			tb.Fatalf("a warm acquire took %d requests, want %d", n, writes)
		}
		if rec.sent[i] = rec.update; ld.full != (rec.update.ExpressionAttributeValues[":rf"] != nil) {
			tb.Fatalf("the bucket is full: %t, but the update is %s", ld.full, *rec.update.UpdateExpression)
		}
	}
	return rec
}
