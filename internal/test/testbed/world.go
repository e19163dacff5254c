// Package testbed is the world of this project's own tests: a table on the embedded
// engine, stores on it, and limiters on these. A package's tests embed [World] where they
// need more. Package limitertest is made of it: that one is for tests of programs that use
// a limiter, and shows neither tables nor hooks.
//
// A world may be made in a testing/synctest bubble or outside. Everything that it opens
// closes when its test ends.
package testbed

import (
	"errors"
	"runtime"
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

// Table is the name of every world's table.
const Table = "limits"

// Resource is the resource of every request that a world makes.
const Resource = "gpt-4"

// Options configure a [World]. The zero value is a table on a new engine that answers at
// once, with a store and a limiter of default options.
type Options struct {
	// API is the table's, if the world is not to have an engine of its own.
	API dynamo.API
	// Engine are the options of the world's own engine.
	Engine dynamolite.Options
	// Table are the options of the table. Its name is [Table], whatever this says.
	Table dynamo.TableOptions
	// Remote hides from the world's stores that the engine answers at once.
	Remote bool
	// Apart hides from the world's limiters that callers can leave the writes of a remote store.
	// So all work of an acquire runs on a goroutine of its own.
	Apart bool
	// Store are the defaults of the stores that the world opens: Now, Principal and Logger.
	Store dynamo.Options
	// Limiter are the options of the world's limiter.
	Limiter limiter.Options
}

// A World is a table with a store and a limiter on it.
type World struct {
	testing.TB
	// Engine is the world's own engine. It is nil if the options brought an API.
	Engine *dynamolite.DB
	// Meter counts the requests to API.
	Meter *dynamo.Meter
	// API is the table, as the world's stores see it.
	API dynamo.API
	// Store is a store in the default namespace, and Limiter decides on it.
	Store *dynamo.Store
	*limiter.Limiter

	defaults dynamo.Options
	apart    bool
}

// New makes a table, and a store and a limiter on it.
func New(tb testing.TB, o Options) *World {
	tb.Helper()
	w := &World{TB: tb, defaults: o.Store, apart: o.Apart}
	table := o.API
	if table == nil {
		w.Engine = NewEngine(tb, o.Engine)
		table = w.Engine
	}
	w.Meter = dynamo.NewMeter(table)
	w.API = w.Meter
	if o.Remote {
		w.API = faults.Wrap(w.Meter)
	}
	CreateTable(tb, table, o.Table)
	w.Store = w.Open(dynamo.Options{})
	w.Limiter = w.NewLimiter(w.Store, o.Limiter)
	return w
}

// NewEngine returns an engine without a table.
func NewEngine(tb testing.TB, o dynamolite.Options) *dynamolite.DB {
	tb.Helper()
	db := dynamolite.New(o)
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return db
}

// CreateTable creates the table [Table].
func CreateTable(tb testing.TB, api dynamo.API, o dynamo.TableOptions) {
	tb.Helper()
	o.Name = Table
	if err := dynamo.CreateTable(tb.Context(), api, o); err != nil {
		tb.Fatal(err)
	}
}

// Open opens a store on the world's table. The world's API and defaults stand in for what
// the options leave open.
func (w *World) Open(o dynamo.Options) *dynamo.Store {
	w.Helper()
	o = w.StoreOptions(o)
	s, err := dynamo.Open(w.Context(), o)
	w.Must(err)
	return s
}

// OpenOn opens a store that sends its requests through an API.
func (w *World) OpenOn(api dynamo.API) *dynamo.Store {
	w.Helper()
	return w.Open(dynamo.Options{API: api})
}

// StoreOptions fills in the world's table, API and defaults.
func (w *World) StoreOptions(o dynamo.Options) dynamo.Options {
	o.Table = Table
	if o.API == nil {
		o.API = w.API
	}
	if o.Now == nil {
		o.Now = w.defaults.Now
	}
	if o.Principal == "" {
		o.Principal = w.defaults.Principal
	}
	if o.Logger == nil {
		o.Logger = w.defaults.Logger
	}
	return o
}

// NewLimiter returns a limiter on a store. The limiter's callers carry bucket writes themselves,
// unless the store answers at once.
func (w *World) NewLimiter(s store.Store, o limiter.Options) *limiter.Limiter {
	w.Helper()
	if remote, ok := s.(*dynamo.Store); ok && !remote.Immediate() && !w.apart {
		s = NewCarriedStore(remote)
	}
	l, err := limiter.New(s, o)
	w.Must(err)
	w.Cleanup(func() { w.Check(l.Close()) })
	return l
}

// NewKeeper returns a keeper of the buckets of a store.
func (w *World) NewKeeper(s store.Store, o process.Options) *upkeep.Keeper {
	w.Helper()
	k, err := upkeep.NewKeeper(s, o)
	w.Must(err)
	w.Cleanup(func() { w.Check(k.Close()) })
	return k
}

// Must ends the test if there is an error.
func (w *World) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// Check fails the test if there is an error, which then goes on.
func (w *World) Check(err error) {
	w.Helper()
	if err != nil {
		w.Error(err)
	}
}

// System configures limits at the system level.
func (w *World) System(limits ...limiter.Limit) {
	w.Helper()
	w.Must(w.Store.SetSystem(w.Context(), limits, ""))
}

// Entities creates entities.
func (w *World) Entities(entities ...limiter.Entity) {
	w.Helper()
	for _, e := range entities {
		_, err := w.Store.CreateEntity(w.Context(), e)
		w.Must(err)
	}
}

// Child is an entity whose parent pays, too.
func Child(id, parent string) limiter.Entity {
	return limiter.Entity{ID: id, Parent: parent, Cascade: true}
}

// Ask returns a request for tokens of one limit.
func Ask(entity, limit string, tokens int64) limiter.Request {
	return AskAll(entity, Tokens{limit: tokens})
}

// Tokens are amounts by limit, in whole tokens.
type Tokens = map[string]int64

// AskAll returns a request for tokens of several limits. The request owns the map.
func AskAll(entity string, tokens Tokens) limiter.Request {
	return limiter.Request{Entity: entity, Resource: Resource, Consume: tokens}
}

// Take acquires and commits at once. It returns the refusal, or nil. Any other error ends
// the test.
func (w *World) Take(l *limiter.Limiter, req limiter.Request) (refused *limiter.ExceededError) {
	w.Helper()
	lease, err := l.Acquire(w.Context(), req)
	if errors.As(err, &refused) {
		return refused
	}
	w.Must(err)
	w.Must(lease.Commit(w.Context()))
	return nil
}

// Serve acquires and commits at once. A refusal fails the test, which then goes on.
func (w *World) Serve(l *limiter.Limiter, req limiter.Request) {
	w.Helper()
	if refused := w.Take(l, req); refused != nil {
		w.Error(refused)
	}
}

// Lease acquires. A refusal or another error ends the test.
func (w *World) Lease(l *limiter.Limiter, req limiter.Request) *limiter.Lease {
	w.Helper()
	lease, err := l.Acquire(w.Context(), req)
	w.Must(err)
	if len(req.Slots) > 0 {
		w.Cleanup(func() { runtime.KeepAlive(lease) }) // a lease that nobody has returns its slots
	}
	return lease
}

// UseTwoResources is a small history: a request for 60 of rpd, and for 30 of the resource images.
// The lease takes 65 and 20 in the end. The next request is refused by images.
func (w *World) UseTwoResources() {
	w.Helper()
	w.System(limiter.PerDay("rpd", 100))
	req := Ask("key", "rpd", 60)
	req.Also = []limiter.Part{{Resource: "images", Consume: Tokens{"rpd": 30}}}
	lease := w.Lease(w.Limiter, req)
	images, err := lease.Resource("images")
	w.Must(err)
	w.Must(lease.Settle("rpd", 65))
	w.Must(images.Settle("rpd", 20))
	w.Must(lease.Commit(w.Context()))
	req.Consume, req.Also[0].Consume = Tokens{"rpd": 1}, Tokens{"rpd": 90}
	if w.Take(w.Limiter, req) == nil {
		w.Fatal("admitted")
	}
}

// Balance returns the balance of an entity's limit, in whole tokens.
func (w *World) Balance(entity, limit string) int64 {
	w.Helper()
	statuses, err := w.Available(w.Context(), Ask(entity, limit, 0))
	w.Must(err)
	for _, s := range statuses {
		if s.Entity == entity {
			return s.Available
		}
	}
	w.Fatalf("no status of %s", limit)
	return 0
}

// Images returns the items of an entity's bucket, one for each shard.
func (w *World) Images(entity string) []*store.Image {
	w.Helper()
	images, err := w.Store.Buckets(w.Context(), entity, Resource, limiter.MaxShards)
	w.Must(err)
	return images
}
