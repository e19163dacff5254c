//go:build conformance

package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
			o := dynamo.Options{API: local.Client, Table: tableMadeBy(by), Namespace: name}
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

func tableMadeBy(by string) string { return "made-by-" + by }

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

// TestInteroperation tests the Python peer and this library on one table.
func TestInteroperation(t *testing.T) {
	t.Parallel()
	interoperate(t, peers.DynamoDBLocal(t))
}

func interoperate(t *testing.T, local *peers.Local) {
	t.Helper()
	py := tables(t, local)
	for _, cases := range [][]interopCase{bucketCases, configCases, compareCases, foreignCases, loadCases, usageCases, cliCases, auditCases, manifestCases} {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { interop(t, py, c.run) })
		}
	}
}

// tables creates the two tables, and starts the peer.
func tables(t *testing.T, local *peers.Local) *python {
	t.Helper()
	py := startPython(t, local)
	py.do("create_table", args{"table": tableMadeBy("python"), "region": peers.Region, "endpoint": local.Endpoint}, nil)
	py.open(tableMadeBy("python"), dynamo.DefaultNamespace) // writes the version record
	if err := dynamo.CreateTable(t.Context(), local.Client, dynamo.TableOptions{Name: tableMadeBy("go"), IndexKeys: dynamo.SharedKeys, Stream: true}); err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"python", "go"} {
		// The peer writes some features only if the version record names an aggregator of
		// its version.
		py.open(tableMadeBy(by), dynamo.DefaultNamespace)
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
