package dynamo_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// A price is the cost of a path: round trips, requests and capacity units, index writes
// included.
type price struct {
	trips, requests int64
	rcu, wcu        float64
}

func (p price) String() string {
	return fmt.Sprintf("%d | %d | %v | %v", p.trips, p.requests, p.rcu, p.wcu)
}

// A cost is a row of the table of costs.
type cost struct {
	path string
	want price // by AWS's rules
	// local is the bill of DynamoDB Local where it differs from AWS's rules; nil: it
	// does not. DynamoDB Local bills no read of a missing key and no empty query. It
	// bills some transactions twice, and four units for any number of updates in one.
	local *price
	run   func(*till)
}

// A till measures one path, in a namespace of its own.
type till struct {
	*testing.T
	api     dynamo.API // not measured
	name    string     // of the namespace
	measure *measure
	meter   *dynamo.Meter
	store   *dynamo.Store    // measured
	limiter *limiter.Limiter // on store
	admin   *dynamo.Store    // not measured
	other   *limiter.Limiter // on admin: another process
	aside   price            // the measured part that does not belong to the path
}

// costLimits are the limits of every path. The first two accrue hardly anything while a
// path is measured. The third earns a token a millisecond.
var costLimits = []store.Limit{
	limiter.PerDay("rpd", 86_400), limiter.PerDay("tpd", 86_400), limiter.PerSecond("fast", 1000, limiter.Burst(50_000)),
}

// TestCosts checks the table of costs on the embedded engine, which bills by AWS's
// rules. go test -v prints the table.
func TestCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		t.Log("\n" + checkCosts(t, newLiteTable(t), slices.Concat(costs, operatorCosts, slotCosts, tokenCosts, returnCosts), false))
	})
}

func newLiteTable(t *testing.T) *dynamolite.DB {
	t.Helper()
	engine := testbed.NewEngine(t, dynamolite.Options{})
	if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: table}); err != nil {
		t.Fatal(err)
	}
	return engine
}

// checkCosts measures every path and returns the table as Markdown.
func checkCosts(t *testing.T, api dynamo.API, costs []cost, local bool) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| path | round trips | requests | RCU | WCU |\n|---|---|---|---|---|\n")
	for i, c := range costs {
		want := c.want
		if local && c.local != nil {
			want = *c.local
		}
		got := newTill(t, api, fmt.Sprintf("path-%02d", i)).cost(c.run)
		if got != want {
			t.Errorf("%s costs %v, want %v (round trips | requests | RCU | WCU)", c.path, got, want)
		}
		fmt.Fprintf(&b, "| %s | %v |\n", c.path, got)
	}
	return b.String()
}

func newTill(t *testing.T, api dynamo.API, name string) *till {
	t.Helper()
	namespaces, err := admin.NewNamespaces(dynamo.Options{API: api, Table: table})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Register(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	c := &till{T: t, api: api, name: name, measure: &measure{}}
	c.meter = dynamo.NewMeter(faults.Wrap(api, c.measure.pass))
	c.store, c.admin = c.open(c.meter), c.open(api)
	c.must(c.admin.SetSystem(t.Context(), costLimits, ""))
	c.limiter, c.other = c.newLimiter(c.store), c.newLimiter(c.admin)
	return c
}

func (c *till) open(api dynamo.API) *dynamo.Store {
	c.Helper()
	s, err := dynamo.Open(c.Context(), dynamo.Options{API: api, Table: table, Namespace: c.name})
	c.must(err)
	return s
}

func (c *till) newLimiter(s *dynamo.Store) *limiter.Limiter {
	c.Helper()
	l, err := limiter.New(s, limiter.Options{Timeout: time.Minute, TokenKeys: tokenKeys})
	c.must(err)
	return l
}

func (c *till) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// cost returns the cost of run between [till.start] and its end.
func (c *till) cost(run func(*till)) price {
	c.Helper()
	run(c)
	c.must(c.limiter.Close())
	c.must(c.other.Close())
	u := c.meter.Totals().Sum()
	return price{trips: c.measure.stop(), requests: u.Requests, rcu: u.RCU, wcu: u.WCU}.less(c.measure.before).less(c.aside)
}

func (p price) less(q price) price {
	return price{p.trips - q.trips, p.requests - q.requests, p.rcu - q.rcu, p.wcu - q.wcu}
}

// start begins the measurement: earlier costs do not count.
func (c *till) start() {
	u := c.meter.Totals().Sum()
	c.measure.start(price{requests: u.Requests, rcu: u.RCU, wcu: u.WCU})
}

// acquire takes tokens from the user's bucket.
func (c *till) acquire(l *limiter.Limiter, limit string, tokens int64) *limiter.Lease {
	c.Helper()
	lease, err := l.Acquire(c.Context(), limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{limit: tokens}})
	c.must(err)
	return lease
}

// acquireTwo takes tokens of two resources in one request.
func (c *till) acquireTwo(tokens int64) error {
	consume := map[string]int64{"rpd": tokens}
	return errOf(c.limiter.Acquire(c.Context(), limiter.Request{
		Entity: "user", Resource: "gpt-4", Consume: consume, Also: []limiter.Part{{Resource: "images", Consume: consume}},
	}))
}

// refuse is an acquire that must be refused.
func (c *till) refuse() {
	c.Helper()
	_, err := c.limiter.Acquire(c.Context(), limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rpd": 5000}})
	fixture.WantErr(c.T, err, limiter.ErrExceeded)
}

// refuseAs is an acquire that must fail with an error.
func (c *till) refuseAs(want error) {
	c.Helper()
	_, err := c.limiter.Acquire(c.Context(), limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rpd": 1}})
	fixture.WantErr(c.T, err, want)
}

// spreadUsers are n users whose buckets are in all partitions of the index, because DynamoDB Local
// bills no empty query.
func (c *till) spreadUsers(n int) []string {
	_, ns := c.store.Namespace()
	partitions := map[string]bool{}
	var users []string
	for i := 0; len(users) < n; i++ {
		b := store.Bucket{Entity: fmt.Sprintf("user-%d", i), Resource: "gpt-4"}
		pk := fixture.Notation(schema.EncodeNewBucket(ns, true, &store.Create{Bucket: b})[schema.GSI2PK])
		if !partitions[pk] || len(partitions) == schema.IndexPartitions {
			users = append(users, b.Entity)
		}
		partitions[pk] = true
	}
	return users
}

// cascade makes the user a child that cascades.
func (c *till) cascade() {
	c.Helper()
	fixture.CreateEntity(c.T, c.admin, store.Entity{ID: "project"})
	fixture.CreateEntity(c.T, c.admin, store.Entity{ID: "user", Parent: "project", Cascade: true})
}

// A measure delays each request before it passes it on, and finds which requests depend
// on each other. A request that begins after another was answered counts as one round
// trip later.
type measure struct {
	before price

	mu       sync.Mutex
	on       bool
	answered int64 // the depth of the deepest answered request
}

// held is the delay of a request. Requests that are sent together must be under way
// together for this time.
const held = 50 * time.Millisecond

func (m *measure) start(before price) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on, m.before, m.answered = true, before, 0
}

func (m *measure) stop() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on = false
	return m.answered
}

func (m *measure) begin() (depth int64) {
	m.mu.Lock()
	on, depth := m.on, m.answered+1
	m.mu.Unlock()
	if on {
		time.Sleep(held)
	}
	return depth
}

func (m *measure) end(depth int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answered = max(m.answered, depth)
}

// pass is the hook of the measure.
func (m *measure) pass(ctx context.Context, _ *faults.Call, next faults.Next) error {
	defer m.end(m.begin())
	return next(ctx)
}

// The cost of a take depends on the size of the item, not on the number of limits. As
// long as the item is under 1 KB, ten limits cost as much as one.
func checkCostOfLimits(t *testing.T, api dynamo.API) {
	t.Helper()
	const most = 20
	sizes := map[int]int{}
	for n := 1; n <= most; n++ {
		c := newTill(t, api, fmt.Sprintf("limits-%02d", n))
		_, ns := c.store.Namespace()
		b := store.Bucket{Entity: "user-0123456789", Resource: "gpt-4"}
		req := limiter.Request{Entity: b.Entity, Resource: b.Resource, Consume: map[string]int64{}}
		var limits []store.Limit
		for i := range n {
			limits = append(limits, limiter.PerMinute(fmt.Sprintf("tp%c", 'a'+i), 100_000))
			req.Consume[limits[i].Name] = 1234
		}
		c.must(c.admin.SetSystem(t.Context(), limits, ""))
		c.must(errOf(c.limiter.Acquire(t.Context(), req)))
		size := schema.ItemSize(fixture.Get(t, api, schema.BucketKey(ns, b)))
		c.start()
		c.must(errOf(c.limiter.Acquire(t.Context(), req)))
		got := c.cost(func(*till) {})
		sizes[n] = max(size, schema.ItemSize(fixture.Get(t, api, schema.BucketKey(ns, b))))
		if want := (price{1, 1, 0, float64((sizes[n] + 1023) / 1024)}); got != want {
			t.Errorf("an acquire of %d limits, on an item of %d bytes, costs %v, want %v", n, sizes[n], got, want)
		}
	}
	if sizes[10] > 1024 {
		t.Errorf("an item of 10 limits is %d bytes: more than 1 KB", sizes[10])
	}
	if sizes[most] <= 1024 {
		t.Errorf("an item of %d limits is %d bytes: the rule beyond 1 KB was not seen", most, sizes[most])
	}
	for n := 1; n < most; n++ {
		if sizes[n] <= 1024 && sizes[n+1] > 1024 {
			t.Logf("with limit names of 3 characters, %d limits fit 1 KB (%d bytes); %d take %d bytes", n, sizes[n], n+1, sizes[n+1])
		}
	}
}

func errOf[T any](_ T, err error) error { return err }

// Ten limits cost as much as one.
func TestCostGrowsWithTheItemAndNotWithItsLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { checkCostOfLimits(t, newLiteTable(t)) })
}
