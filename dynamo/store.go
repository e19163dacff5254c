package dynamo

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// DefaultNamespace is the name of the namespace that is used if none is given.
const DefaultNamespace = "default"

// Options say which table to use and how. API and Table are required.
type Options struct {
	API   API
	Table string
	// Namespace is the name of the namespace; "" is [DefaultNamespace].
	Namespace string
	// Now is the local clock; nil is time.Now. The store's own clock starts there and
	// goes on with the time that passes, corrected by the dates of answers; with an
	// API that answers in the same process it is the local clock.
	Now func() time.Time
	// Logger is told what cannot be returned; nil discards it.
	Logger *slog.Logger
	// Principal is who makes changes, as audit events name it: at most 2048 bytes
	// of printable UTF-8. "" is the ARN that STS says the client's credentials are
	// of, which is asked once, before the first change, and only if API is a
	// *dynamodb.Client that talks to AWS; events name nobody if it cannot be told.
	Principal string
	// Timeout bounds each request whose context has no deadline; 0 is 10 s.
	Timeout time.Duration
	// UsageTTL is how long usage snapshots are kept after their windows have
	// ended; 0 is [DefaultUsageTTL], and less than 0 is for ever. It holds for
	// snapshots as they are written to.
	UsageTTL time.Duration

	ids     *eventIDs            // once defaults are filled in
	machine bool                 // Now was left out
	passed  func() time.Duration // the time that has passed since the store was opened; nil but in tests
}

const defaultTimeout = 10 * time.Second

// withDefaults checks o and fills in what was left out.
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

// A Store is one namespace of a table: a [store.Store] and its
// administration. It is safe for concurrent use.
//
// Configuration changed through a store reaches whoever watches it
// ([store.ConfigWatcher]); changes by others are seen when caches expire.
type Store struct {
	*conn
	// ns is the opaque id that the namespace's name led to when the store was
	// opened: the first part of every key.
	ns      string
	name    string
	version *schema.Version // nil if the table has no version record
	log     *slog.Logger
	// usageTTL is how long usage snapshots are kept, for ever if less than 0.
	usageTTL time.Duration

	retention retention
	counts    counts

	// The constant parts of bucket writes, by the limits they name, and of those
	// that count usage.
	takes, refills, adjusts, usages shapes

	watch    sync.Mutex
	watchers map[int]func(store.ConfigKey)
	watched  int // the last id given out
}

var (
	_ store.Store         = (*Store)(nil)
	_ store.ConfigWatcher = (*Store)(nil)
)

// Open reads the version record of a table and resolves the namespace, in one
// request. It creates nothing.
//
// It fails with [store.ErrNotFound] if the table or the namespace does not
// exist, and with [store.ErrIncompatible] if the table asks for a newer client
// or has another schema. A table without a version record is accepted.
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

// Now is the instant by the server's clock, as far as the dates of answers tell: see
// [Store.Clock].
func (s *Store) Now() time.Time { return s.clock.now() }

// CheckedNow is [Store.Now], and whether the clock was compared with the server's.
func (s *Store) CheckedNow() (now time.Time, checked bool) { return s.clock.checkedNow() }

// Clock is how the store's clock stands to the local one and to the server's.
func (s *Store) Clock() ClockReport { return s.clock.report() }

// Namespace is the name and the id of the store's namespace.
func (s *Store) Namespace() (name, id string) { return s.name, s.ns }

// WatchConfig calls f after every change of configuration made through s, until
// stop is called. f must not block and must not call s.
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

// changed tells the watchers that a level of configuration changed, or may have.
func (s *Store) changed(k store.ConfigKey) {
	s.watch.Lock()
	defer s.watch.Unlock()
	for _, f := range s.watchers {
		f(k)
	}
}
