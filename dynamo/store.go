package dynamo

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/namespace"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

type item = schema.Item

// Names that hold where none is given.
const (
	// DefaultNamespace is the namespace that a store uses.
	DefaultNamespace = "default"
	// DefaultManifest is the manifest whose record the Python peer reads and writes.
	DefaultManifest = schema.DefaultManifest
)

// Options say which table to use and how. API and Table are required.
type Options struct {
	API   API
	Table string
	// Namespace is the name of the namespace; "" is [DefaultNamespace].
	Namespace string
	// Now is the local clock; nil is time.Now. The store's own clock starts at its
	// reading, then advances with elapsed time and is corrected by the dates of
	// answers. With an API that answers within the process, the store's clock is the
	// local clock.
	Now func() time.Time
	// Logger receives what the store cannot return to a caller; nil discards it.
	Logger *slog.Logger
	// Principal names, in audit events, the actor of each change: at most 2048 bytes of
	// printable UTF-8. With "", the store asks STS once, before the first change, for
	// the ARN of the client's credentials. It asks only if API is a *dynamodb.Client
	// that talks to AWS. Events have no principal if the ARN cannot be found.
	Principal string
	// Timeout bounds each request whose context has no deadline; 0 is 10 s.
	Timeout time.Duration
	// UsageTTL is how long usage snapshots are kept after their windows have ended. 0
	// is [usage.DefaultTTL]; a negative value keeps them for ever. A snapshot gets it
	// with each write.
	UsageTTL time.Duration

	passed func() time.Duration // the time since the store was opened; nil except in tests
}

// withDefaults validates o, except what [conn.New] validates, and fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if err := store.CheckNamespace(o.Namespace); err != nil {
		return o, err
	}
	if err := audit.CheckPrincipal(o.Principal); err != nil {
		return o, err
	}
	if o.UsageTTL == 0 {
		o.UsageTTL = usage.DefaultTTL
	}
	return o, nil
}

// connect returns a connection to the table and its audit trail. It sends no request.
func (o Options) connect() (*conn.Conn, *audit.Trail, error) {
	c, err := conn.New(conn.Options{
		API: o.API, Table: o.Table, Now: o.Now, Logger: o.Logger, Timeout: o.Timeout, Passed: o.passed,
	})
	if err != nil {
		return nil, nil, err
	}
	return c, audit.New(c, o.Principal), nil
}

// A Store is one namespace of a table: a [store.Store] and its administration. It is
// safe for concurrent use.
//
// A store notifies its watchers ([store.ConfigWatcher]) of configuration changes made
// through it. Changes by others are seen when caches expire.
type Store struct {
	*opened

	audit  *audit.Trail
	counts counts
}

// opened is what a store shares with those that [Store.As] makes of it: everything but the actor and
// the counts.
type opened struct {
	conn  *conn.Conn
	usage *usage.Snapshots
	// ns is the opaque id that the namespace's name led to when the store was opened.
	// Every key begins with it.
	ns      string
	name    string
	version *schema.Version // nil if the table has no version record
	// isSpread says that the index keys of new buckets are spread, as the version record said when the store was
	// opened (ADR 041).
	isSpread bool

	retention retention
	gates     sync.Map // of each gate that the version record has passed, true

	// The constant parts of bucket writes, by their operations.
	takes, refills, adjusts expression.Cache

	watch    sync.Mutex
	watchers map[int]func(store.ConfigKey)
	watched  int // the last id given out
}

var (
	_ store.Store         = (*Store)(nil)
	_ store.BucketLister  = (*Store)(nil)
	_ store.ConfigWatcher = (*Store)(nil)
)

// Open reads the version record of a table and resolves the namespace, in one request.
// It creates nothing.
//
// It fails with [store.ErrNotFound] if the table or the namespace does not exist. It
// fails with [store.ErrIncompatible] if the table requires a newer client or has
// another schema. It accepts a table without a version record.
//
// Any *dynamodb.Client serves as [Options].API. The client of package fastclient sends a
// store's requests with a fifth of the CPU time and a twelfth of the allocations
// (docs/measurements/performance.md).
func Open(ctx context.Context, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c, trail, err := o.connect()
	if err != nil {
		return nil, err
	}
	s := &Store{opened: &opened{conn: c, name: o.Namespace, watchers: map[int]func(store.ConfigKey){}}, audit: trail}
	version, forward := schema.VersionKey(), schema.NamespaceKey(o.Namespace)
	items, err := s.conn.BatchGet(ctx, "open table "+o.Table, []schema.Key{version, forward}, true)
	if err != nil {
		return nil, err
	}
	if it, ok := items[version]; ok {
		v := schema.DecodeVersion(it)
		if err := versionOf(v).Check(); err != nil {
			return nil, err
		}
		s.version, s.isSpread = &v, v.Spread == schema.SpreadAll
	}
	n, err := namespace.Active(o.Namespace, items[forward])
	if err != nil {
		return nil, err
	}
	s.ns, s.usage = n.ID, usage.New(c, n.ID, o.UsageTTL)
	return s, nil
}

// As is the store for the changes of one actor: principal names it in their audit events, as
// [Options].Principal does, and "" is the store's own. [Store.Stats] of the new store count from now. All
// else is shared: the connection, the clock, what is remembered, and the watchers. As sends nothing, so a
// server makes such a store for each call.
func (s *Store) As(principal string) (*Store, error) {
	if err := audit.CheckPrincipal(principal); err != nil {
		return nil, err
	}
	return &Store{opened: s.opened, audit: s.audit.As(principal)}, nil
}

// Now is the instant by the server's clock, as far as the dates of answers tell. See
// [Store.Clock].
func (s *Store) Now() time.Time { return s.conn.Clock.Now() }

// CheckedNow is [Store.Now], with a report whether the clock was compared with the
// server's.
func (s *Store) CheckedNow() (now time.Time, checked bool) { return s.conn.Clock.CheckedNow() }

// Clock reports the offsets of the store's clock from the local clock and the server's.
func (s *Store) Clock() ClockReport { return ClockReport(s.conn.Clock.Report()) }

// Leavable reports whether a caller may carry a bucket write itself, because it can leave while
// the write is under way. It is true for a client of package fastclient.
func (s *Store) Leavable() bool { return s.conn.Leavable() }

// Immediate reports whether the store's API says that it never waits, as an engine in
// the same process does.
func (s *Store) Immediate() bool { return s.conn.Immediate() }

// Usage returns the usage snapshots of the store's namespace.
func (s *Store) Usage() *usage.Snapshots { return s.usage }

// IndexKeys says which index keys the store's new buckets get. With [SharedKeys], clients of the
// Python package may use the table, too.
func (s *Store) IndexKeys() IndexKeys {
	if s.isSpread {
		return SpreadKeys
	}
	return SharedKeys
}

// Namespace returns the name and the id of the store's namespace.
func (s *Store) Namespace() (name, id string) { return s.name, s.ns }

// CheckNamespace reads whether the store's namespace still has its name. It fails with
// [store.ErrNotFound] if the namespace was deleted since the store was opened: what the
// store writes then reaches nobody, and nobody finds it.
func (s *Store) CheckNamespace(ctx context.Context) error {
	key := schema.NamespaceKey(s.name)
	items, err := s.conn.BatchGet(ctx, "check namespace "+s.name, []schema.Key{key}, true) // as Open: with its permission
	if err != nil || namespace.LeadsTo(items[key], s.ns) {
		return err
	}
	return &store.NotFoundError{Kind: "namespace", Name: s.name, Hint: "it was deleted meanwhile: recover the ID " + s.ns + ", or register the name again"}
}

// WatchConfig calls f after every configuration change made through s, until the caller
// calls stop. f must not block and must not call s.
func (s *Store) WatchConfig(f func(store.ConfigKey)) (stop func()) {
	s.watch.Lock()
	defer s.watch.Unlock()
	s.watched++
	id := s.watched
	s.watchers[id] = f
	return func() {
		s.watch.Lock()
		defer s.watch.Unlock()
		delete(s.watchers, id)
	}
}

// changed tells the watchers that a level of configuration changed, or may have
// changed.
func (s *Store) changed(k store.ConfigKey) {
	s.watch.Lock()
	defer s.watch.Unlock()
	for _, f := range s.watchers {
		f(k)
	}
}

// OpenID is [Open] by the id of a namespace instead of its name. Stream records carry
// the id. OpenID fails with [store.ErrNotFound] if the namespace was deleted, or never
// registered.
func OpenID(ctx context.Context, o Options, id string) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c, _, err := o.connect()
	if err != nil {
		return nil, err
	}
	it, err := c.GetItem(ctx, "find the namespace with the id "+id, schema.NamespaceIDKey(id))
	if err != nil {
		return nil, err
	}
	missing := &store.NotFoundError{Kind: "namespace", Name: id, Hint: "it was deleted, or never registered"}
	if it == nil {
		return nil, missing
	}
	ns, err := schema.DecodeNamespace(it)
	if err != nil {
		return nil, err
	}
	o.Namespace = ns.Name
	s, err := Open(ctx, o)
	switch {
	case err != nil:
		return nil, err
	case s.ns != id:
		return nil, missing // the name now belongs to another namespace
	}
	return s, nil
}

// A ClockReport is what a store knows of its clock.
type ClockReport struct {
	// Checked reports that the last answer's date agreed with the clock, or that the
	// server uses the local clock.
	Checked bool
	// Correction is the difference that the clock adds to the local clock.
	Correction time.Duration
	// Uncertainty is half the width of the bounds that the dates give, 0 until there
	// was a date.
	Uncertainty time.Duration
	// Steps counts how often the store found that the local clock was set. Restarts
	// counts how often dates contradicted earlier ones for so long that the clock
	// accepted them.
	Steps, Restarts int
}
