//go:build conformance

package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// A python is a running script, by default peer.py.
type python struct {
	*testing.T
	*pythonProcess
}

type pythonProcess struct {
	mu     sync.Mutex
	script *peers.Script
	local  *peers.Local
	part   string // see [tables]
}

// A pythonError is an exception of the peer. That of a refusal has details.
type pythonError struct {
	Class, Message string
	Details        json.RawMessage
}

func (e *pythonError) Error() string { return e.Class + ": " + e.Message }

func startPython(t *testing.T, local *peers.Local) *python {
	t.Helper()
	return startScript(t, local, "python/peer.py")
}

// startScript starts a script that answers JSON lines as peer.py does.
func startScript(t *testing.T, local *peers.Local, script string) *python {
	t.Helper()
	return &python{t, &pythonProcess{script: peers.StartScript(t, script), local: local}}
}

// args are the arguments of a request.
type args map[string]any

// try sends a request and decodes the answer into result, unless that is nil. The error is
// the peer's exception.
func (p *python) try(op string, a args, result any) error {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	request := args{"op": op}
	maps.Copy(request, a)
	var answer struct {
		Result         json.RawMessage
		Error, Message string
		Details        json.RawMessage
	}
	if err := p.script.Ask(request, &answer); err != nil {
		p.Fatalf("no answer: %v", err)
	}
	if answer.Error != "" {
		return &pythonError{answer.Error, answer.Message, answer.Details}
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer.Result, result)
}

// do is try for a request that must succeed.
func (p *python) do(op string, a args, result any) {
	p.Helper()
	if err := p.try(op, a, result); err != nil {
		p.Fatalf("%s %v: %v", op, a, err)
	}
}

// call calls a method of the peer's repository.
func (p *python) call(method string, a args, result any) {
	p.Helper()
	with := args{"method": method}
	maps.Copy(with, a)
	p.do("call", with, result)
}

// take acquires and commits; refused means that the peer refused it.
func (p *python) take(entity, resource string, consume args) (refused bool) {
	p.Helper()
	var lease int
	err := p.try("acquire", args{"entity": entity, "resource": resource, "consume": consume}, &lease)
	if thrown := (*pythonError)(nil); errors.As(err, &thrown) && thrown.Class == "RateLimitExceeded" {
		return true
	} else if err != nil {
		p.Fatal(err)
	}
	p.do("settle", args{"lease": lease}, nil)
	return false
}

// perDay is a limit whose balance hardly changes during a test: it earns a token every 86.4
// seconds or slower.
func perDay(name string, tokens int64) limiter.Limit {
	return limiter.Custom(name, tokens, 1000*24*time.Hour)
}

// asPython converts limits to the peer's form.
func asPython(limits ...limiter.Limit) []args {
	var specs []args
	for _, l := range limits {
		spec := args{
			"name": l.Name, "capacity": l.Capacity, "refill_amount": l.Amount, "refill_period_seconds": int64(l.Period / time.Second),
		}
		if l.Renews != nil {
			spec["refill_period_seconds"] = 1 // which means nothing
			if session := l.Renews.Session(); session != 0 {
				spec["reset_after"] = session / 1000
			} else {
				spec["reset"], spec["tz"] = l.Renews.Patterns(), l.Renews.Zone()
			}
		}
		if l.Varies != nil {
			spec["schedule"] = entriesOf(l.Varies)
		}
		if l.Soft {
			spec["soft"] = true
		}
		specs = append(specs, spec)
	}
	return specs
}

// A both is a namespace that both libraries use.
type both struct {
	*testing.T
	*limiter.Limiter
	py    *python
	api   dynamo.API
	table string
	store *dynamo.Store
	// ahead, if not nil, is how far both clocks are set ahead, in seconds: see [both.at].
	ahead *atomic.Int64

	namespaces *admin.Namespaces
}

// namespaces counts the namespaces of all cases.
var namespaces atomic.Int64

// interop runs f in its own namespace on a table that the peer created, and on a table that
// we created.
func interop(t *testing.T, py *python, f func(*both)) {
	t.Helper()
	for _, by := range []string{"python", "go"} {
		t.Run("on a table made by "+by, func(t *testing.T) {
			name := fmt.Sprintf("case-%d", namespaces.Add(1))
			local := py.local
			py := &python{T: t, pythonProcess: py.pythonProcess}
			o := dynamo.Options{API: local.Client, Table: py.tableMadeBy(by), Namespace: name}
			b := &both{T: t, py: py, api: local.Client, table: o.Table}
			var err error
			b.namespaces, err = admin.NewNamespaces(o)
			b.must(err)
			_, err = b.namespaces.Register(t.Context(), name)
			b.must(err)
			b.store, err = dynamo.Open(t.Context(), o)
			b.must(err)
			b.Limiter = b.limiter()
			py.open(o.Table, name)
			f(b)
		})
	}
}

func (p *pythonProcess) tableMadeBy(by string) string { return p.part + "-made-by-" + by }

func (p *python) open(table, namespace string) {
	p.Helper()
	p.do("open", args{"table": table, "namespace": namespace, "region": peers.Region, "endpoint": p.local.Endpoint}, nil)
}

// limiter is a client of ours with an empty memory.
func (b *both) limiter() *limiter.Limiter {
	b.Helper()
	l, err := limiter.New(b.store, limiter.Options{Timeout: time.Minute})
	b.must(err)
	b.Cleanup(func() {
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	})
	return l
}

func (b *both) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func request(entity, resource string, consume args) limiter.Request {
	r := limiter.Request{Entity: entity, Resource: resource, Consume: map[string]int64{}}
	for limit, tokens := range consume {
		n, _ := tokens.(int)
		r.Consume[limit] = int64(n)
	}
	return r
}

// take acquires and commits; refused is the refusal, if there is one.
func (b *both) take(entity, resource string, consume args) (refused *limiter.ExceededError) {
	b.Helper()
	lease, err := b.Acquire(b.Context(), request(entity, resource, consume))
	if errors.As(err, &refused) {
		return refused
	}
	b.must(err)
	b.must(lease.Commit(b.Context()))
	return nil
}

// balance checks a bucket's balance of a limit: its item, and the answers of both
// libraries.
func (b *both) balance(entity, resource, limit string, want int64) {
	b.Helper()
	images, err := b.store.Buckets(b.Context(), entity, resource, 1)
	b.must(err)
	if len(images) != 1 {
		b.Fatalf("%d buckets of %s for %s", len(images), entity, resource)
	}
	state, _ := images[0].Limit(limit)
	if state.Tokens/1000 != want {
		b.Errorf("the item of %s holds %d millitokens of %s, want %d tokens", entity, state.Tokens, limit, want)
	}
	statuses, err := b.Available(b.Context(), request(entity, resource, args{limit: 0}))
	b.must(err)
	if statuses[0].Available != want {
		b.Errorf("Go says %s has %d of %s, want %d", entity, statuses[0].Available, limit, want)
	}
	var available map[string]int64
	b.py.do("available", args{"entity": entity, "resource": resource}, &available)
	if available[limit] != want {
		b.Errorf("Python says %s has %d of %s, want %d", entity, available[limit], limit, want)
	}
}

// interoperation are the cases of [TestInteroperation], those that take longest first. The cases of a part run
// one after the other, with a Python process and tables of their own.
var interoperation = []struct {
	name   string
	groups [][]interopCase
}{
	// Calendar quotas; cases set the clocks of both ahead.
	{"quotas", [][]interopCase{quotaConfigCases, quotaPeriodCases, quotaShardCases, quotaEditCases, amendCases, quotaDayCases, sessionCases}},
	// Limits that follow schedules; cases set the clocks of both ahead.
	{"schedules", [][]interopCase{scheduleConfigCases, scheduleCases, scheduleEditCases}},
	// Buckets of several shards.
	{"shards", [][]interopCase{shardCases}},
	// One quota that a fleet of both uses for two weeks in which clocks change.
	{"fortnight", [][]interopCase{fortnightCases}},
	// One table that both use, in nearly every way.
	{"plain", [][]interopCase{bucketCases, configCases, compareCases, foreignCases, loadCases, usageCases, cliCases, auditCases, manifestCases}},
	// Requests of several resources, and what both say of buckets without taking from them.
	{"parts", [][]interopCase{partCases, statementCases}},
	// The commands of both packages on what the other one wrote.
	{"commands", [][]interopCase{commandCases}},
	// Parents and cascade policies that either of them changes while both acquire.
	{"moves", [][]interopCase{moveCases}},
	// Soft limits.
	{"soft", [][]interopCase{softCases}},
	// Quotas that follow schedules; cases set the clocks of both ahead.
	{"varied", [][]interopCase{variedConfigCases, variedCases}},
	// Switches that this library sets; those that Python sets are among the other cases.
	{"switches", [][]interopCase{switchCases}},
	// Slots, which the peer passes by, and what it does to their settings.
	{"slots", [][]interopCase{slotsCases}},
	// Quotas that carry, which the peer does not know.
	{"carries", [][]interopCase{carryCases}},
	// Attributes of reservations and of what limits return. The peer passes them by.
	{"returns", [][]interopCase{returnsCases}},
	// Bypasses.
	{"bypasses", [][]interopCase{bypassCases}},
}

// TestInteroperation tests the Python peer and this library on the same tables, on DynamoDB Local, and on the embedded
// engine on disk and over HTTP. Each of both serves all parts: to start one, and to warm up, takes longer than most.
func TestInteroperation(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *peers.Local{
		"on DynamoDB Local":    func(t *testing.T) *peers.Local { t.Helper(); return peers.DynamoDBLocal(t) },
		"on zae-limiter local": func(t *testing.T) *peers.Local { t.Helper(); return &serve(t, "--data", t.TempDir()).Local },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local := start(t)
			for _, part := range interoperation {
				t.Run(part.name, func(t *testing.T) {
					t.Parallel()
					py := tables(t, local, part.name)
					for _, c := range slices.Concat(part.groups...) {
						t.Run(c.name, func(t *testing.T) { interop(t, py, c.run) })
					}
				})
			}
		})
	}
}

// tables creates the two tables, and starts the peer. part is in the names of the tables.
func tables(t *testing.T, local *peers.Local, part string) *python {
	t.Helper()
	py := startPython(t, local)
	py.part = part
	byPython, byGo := py.tableMadeBy("python"), py.tableMadeBy("go")
	py.do("create_table", args{"table": byPython, "region": peers.Region, "endpoint": local.Endpoint}, nil)
	py.open(byPython, dynamo.DefaultNamespace) // writes the version record
	if err := dynamo.CreateTable(t.Context(), local.Client, dynamo.TableOptions{Name: byGo, IndexKeys: dynamo.SharedKeys, Stream: true}); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{byPython, byGo} {
		// The peer writes some features only if the version record names an aggregator of
		// its version.
		py.open(table, dynamo.DefaultNamespace)
		py.call("set_version_record", args{"schema_version": "0.10.0", "lambda_version": "0.17.0"}, nil)
	}
	return py
}

// An interopCase runs in its own namespace.
type interopCase struct {
	name string
	run  func(*both)
}

// item reads shard 0 of a bucket as stored; nil if there is none.
func (b *both) item(entity, resource string) schema.Item {
	b.Helper()
	_, ns := b.store.Namespace()
	out, err := b.api.GetItem(b.Context(), &dynamodb.GetItemInput{
		TableName: &b.table, ConsistentRead: aws.Bool(true),
		Key: schema.BucketKey(ns, limiter.Bucket{Entity: entity, Resource: resource}).Item(),
	})
	b.must(err)
	return out.Item
}

// books checks that a bucket's balance agrees with its count of consumed tokens: tokens
// that are not held were consumed.
func (b *both) books(entity, resource, limit string, capacity, consumed int64) {
	b.Helper()
	images, err := b.store.Buckets(b.Context(), entity, resource, 1)
	b.must(err)
	if len(images) != 1 {
		b.Fatalf("%d buckets of %s for %s", len(images), entity, resource)
	}
	state, _ := images[0].Limit(limit)
	if held := (state.Tokens + 999) / 1000; state.Consumed != consumed*1000 || held != capacity-consumed && held != capacity-consumed+1 {
		b.Errorf("%s of %s: %d millitokens held and %d consumed, want %d tokens consumed of %d",
			limit, entity, state.Tokens, state.Consumed, consumed, capacity)
	}
}
