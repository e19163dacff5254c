package dynamo

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// DefaultNamespace is the name of the namespace that a store uses if none is given.
const DefaultNamespace = "default"

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
	// is [DefaultUsageTTL]; a negative value keeps them for ever. A snapshot gets it
	// with each write.
	UsageTTL time.Duration

	ids     *eventIDs            // set by withDefaults
	machine bool                 // Now was nil
	passed  func() time.Duration // the time since the store was opened; nil except in tests
}

const defaultTimeout = 10 * time.Second

// withDefaults validates o and fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.API == nil:
		return o, &store.ValidationError{Field: "API", Value: "nil", Reason: "give a DynamoDB client"}
	case o.Table == "":
		return o, &store.ValidationError{Field: "table", Value: "", Reason: "name the table"}
	case o.Timeout < 0:
		return o, &store.ValidationError{Field: "timeout", Value: o.Timeout.String(), Reason: "give a positive duration, or 0 for 10 s"}
	}
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if err := store.CheckNamespace(o.Namespace); err != nil {
		return o, err
	}
	if err := CheckPrincipal(o.Principal); err != nil {
		return o, err
	}
	if o.Now == nil {
		o.Now = machineNow
		o.ids, o.machine = processIDs, true
	}
	if o.ids == nil {
		o.ids = newEventIDs()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.UsageTTL == 0 {
		o.UsageTTL = DefaultUsageTTL
	}
	return o, nil
}

// A Store is one namespace of a table: a [store.Store] and its administration. It is
// safe for concurrent use.
//
// A store notifies its watchers ([store.ConfigWatcher]) of configuration changes made
// through it. Changes by others are seen when caches expire.
type Store struct {
	*conn
	// ns is the opaque id that the namespace's name led to when the store was opened.
	// Every key begins with it.
	ns      string
	name    string
	version *schema.Version // nil if the table has no version record
	log     *slog.Logger
	// usageTTL is how long usage snapshots are kept; for ever if negative.
	usageTTL time.Duration

	retention retention
	counts    counts

	// The constant parts of bucket writes and usage writes, by their operations.
	takes, refills, adjusts, usages expression.Cache

	watch    sync.Mutex
	watchers map[int]func(store.ConfigKey)
	watched  int // the last id given out
}

var (
	_ store.Store         = (*Store)(nil)
	_ store.ConfigWatcher = (*Store)(nil)
)

// Open reads the version record of a table and resolves the namespace, in one request.
// It creates nothing.
//
// It fails with [store.ErrNotFound] if the table or the namespace does not exist. It
// fails with [store.ErrIncompatible] if the table requires a newer client or has
// another schema. It accepts a table without a version record.
func Open(ctx context.Context, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{conn: newConn(o), name: o.Namespace, log: o.Logger, usageTTL: o.UsageTTL, watchers: map[int]func(store.ConfigKey){}}
	version, namespace := schema.VersionKey(), schema.NamespaceKey(o.Namespace)
	items, err := s.batchGet(ctx, "open table "+o.Table, []schema.Key{version, namespace}, true)
	if err != nil {
		return nil, err
	}
	if it, ok := items[version]; ok {
		v := schema.DecodeVersion(it)
		if err := checkCompatible(v); err != nil {
			return nil, err
		}
		s.version = &v
	}
	n, err := activeNamespace(o.Namespace, items[namespace])
	if err != nil {
		return nil, err
	}
	s.ns = n.ID
	return s, nil
}

// Now is the instant by the server's clock, as far as the dates of answers tell. See
// [Store.Clock].
func (s *Store) Now() time.Time { return s.clock.now() }

// CheckedNow is [Store.Now], with a report whether the clock was compared with the
// server's.
func (s *Store) CheckedNow() (now time.Time, checked bool) { return s.clock.checkedNow() }

// Clock reports the offsets of the store's clock from the local clock and the server's.
func (s *Store) Clock() ClockReport { return s.clock.report() }

// Namespace returns the name and the id of the store's namespace.
func (s *Store) Namespace() (name, id string) { return s.name, s.ns }

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
