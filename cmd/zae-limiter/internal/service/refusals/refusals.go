// Package refusals remembers the last refusals of a process, so that operators can ask why a request was
// refused (ADR 070). Names stay in the memory of the process: nothing of them is logged, counted or stored.
package refusals

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

const (
	// Size is how many refusals a process remembers. The next one replaces the oldest.
	Size = 1024
	// MaxLimits is of how many limits a refusal tells, first of those that refused.
	MaxLimits = 8
	// maxRequest is the length of the longest ID of a request.
	maxRequest = 128
)

// A Refusal is a request that was refused.
type Refusal struct {
	// ID is that of the refusal: of the process, and a number.
	ID string
	// Request is the ID that the client has given to the request; "" for none.
	Request          string
	At               time.Time
	Entity, Resource string
	// Limits are those that refused, and then others that the request named, [MaxLimits] at most. Without
	// any, no limit of tokens refused: all slots were held, too many callers waited, or Disabled says it.
	Limits []Limit
	// Wait is the least wait after which the same request was admitted, [limiter.Never] if none helped. It is
	// 0 without limits.
	Wait time.Duration
	// Slots has the limit of slots that refused; "" for none.
	Slots string
	// Disabled is the bucket that an operator has disabled: one of the request, or of the parent. It is the zero
	// value for none.
	Disabled Bucket
	// FromMemory says that the process refused without asking the table.
	FromMemory bool
}

// A Bucket is that of an entity for a resource.
type Bucket struct{ Entity, Resource string }

// A Limit is one that a refused request named.
type Limit struct {
	// Entity has the bucket: that of the request, or its parent.
	Entity, Resource, Name         string
	Capacity, Available, Requested int64
	// Refused says that this limit refused the request.
	Refused bool
	Wait    time.Duration
}

// A Log remembers refusals. It observes a limiter. A nil log remembers nothing.
type Log struct {
	process string
	now     func() time.Time

	mu   sync.Mutex
	last []Refusal // the refusal n is at (n-1) % Size, without its ID
	n    uint64    // how many there were
}

var _ limiter.Observer = (*Log)(nil)

// New makes a log of a process.
func New(now func() time.Time) *Log {
	const bytes = 4
	process := make([]byte, bytes)
	_, _ = rand.Read(process) // it never fails
	return &Log{process: hex.EncodeToString(process), now: now}
}

// A ticket tells whoever made a request which refusal it got.
type ticket struct {
	request string
	n       atomic.Uint64 // of the refusal; 0 is none
}

// ticketKey is that of a ticket in a context.
type ticketKey struct{}

// Follow is the context of a request, which the client calls by an ID. An ID that is empty, long or not
// printable is none.
func (l *Log) Follow(ctx context.Context, request string) context.Context {
	if l == nil {
		return ctx
	}
	if len(request) > maxRequest || slices.ContainsFunc([]byte(request), func(c byte) bool { return c <= ' ' || c > '~' }) {
		request = ""
	}
	return context.WithValue(ctx, ticketKey{}, &ticket{request: request})
}

// IDOf is the ID of the refusal of the request that a context follows; "" if it was not refused.
func (l *Log) IDOf(ctx context.Context) string {
	t, ok := ctx.Value(ticketKey{}).(*ticket)
	if l == nil || !ok || t.n.Load() == 0 {
		return ""
	}
	return l.id(t.n.Load())
}

func (l *Log) id(n uint64) string {
	var room [32]byte
	return string(strconv.AppendUint(append(append(room[:0], l.process...), '-'), n, 10))
}

// BeginCall notes nothing.
func (*Log) BeginCall(ctx context.Context, _ limiter.Call) context.Context { return ctx }

// BeginOperation notes nothing.
func (*Log) BeginOperation(ctx context.Context, _ limiter.Operation) context.Context { return ctx }

// EndOperation notes nothing.
func (*Log) EndOperation(context.Context, limiter.OperationResult) {}

// EndCall remembers a refusal by a limit, or by an operator who has disabled the bucket. Once the log is full, it
// allocates nothing: a refusal takes the place of the oldest, and the memory of its limits.
func (l *Log) EndCall(ctx context.Context, r limiter.CallResult) {
	disabled, isDisabled := errors.AsType[*limiter.DisabledError](r.Err)
	if l == nil || r.Result != limiter.Refused && (!isDisabled || !r.Kind.IsDecision()) {
		return
	}
	t, _ := ctx.Value(ticketKey{}).(*ticket)
	at := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.last) < Size {
		l.last = append(l.last, Refusal{})
	}
	is := &l.last[l.n%Size]
	l.n++
	*is = Refusal{At: at, Entity: r.Entity, Resource: r.Resource, FromMemory: r.FromMemory, Limits: limitsOf(is.Limits[:0], r.Statuses)}
	if t != nil {
		is.Request = t.request
		t.n.Store(l.n)
	}
	if isDisabled {
		is.Disabled = Bucket{disabled.Entity, disabled.Resource}
		return
	}
	if len(r.Statuses) == 0 {
		if slots, ok := errors.AsType[*limiter.SlotsError](r.Err); ok {
			is.Slots = slots.Limit
		}
		return
	}
	if exceeded, ok := errors.AsType[*limiter.ExceededError](r.Err); ok {
		is.Wait = exceeded.RetryAfter()
	}
}

// limitsOf appends the limits of a refusal, first those that refused.
func limitsOf(limits []Limit, statuses []limiter.Status) []Limit {
	for _, refused := range [...]bool{true, false} {
		for i := range statuses {
			if s := &statuses[i]; s.Exceeded == refused && len(limits) < MaxLimits {
				limits = append(limits, Limit{s.Entity, s.Resource, s.Limit.Name, s.Limit.Capacity, s.Available, s.Requested, refused, s.RetryAfter})
			}
		}
	}
	return limits
}

// A Query selects refusals. Its zero value selects all.
type Query struct {
	// ID is that of a refusal, or of a request.
	ID string
	// Entity and Resource are those of the request, or of a limit that refused it.
	Entity, Resource string
	// Limit is the name of one that refused.
	Limit string
}

// Last returns the refusals that a query selects, the last one first, most at most.
func (l *Log) Last(q Query, most int) []Refusal {
	found := []Refusal{}
	if l == nil {
		return found
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := l.n; n > 0 && n+Size > l.n && len(found) < most; n-- {
		is := l.last[(n-1)%Size]
		if is.ID = l.id(n); !q.selects(&is) {
			continue
		}
		is.Limits = slices.Clone(is.Limits)
		found = append(found, is)
	}
	return found
}

// Process is how the IDs of refusals of this process begin.
func (l *Log) Process() string { return l.process }

// selects reports whether a refusal is one of those.
func (q *Query) selects(r *Refusal) bool {
	if q.ID != "" && q.ID != r.ID && q.ID != r.Request {
		return false
	}
	if (q.Entity == "" || q.Entity == r.Entity) && (q.Resource == "" || q.Resource == r.Resource) && q.Limit == "" {
		return true
	}
	if q.Limit == "" && r.Disabled != (Bucket{}) && q.of(r.Disabled.Entity, r.Disabled.Resource) {
		return true
	}
	return q.Limit == r.Slots && q.Limit != "" && q.of(r.Entity, r.Resource) || slices.ContainsFunc(r.Limits, func(l Limit) bool {
		return l.Refused && (q.Limit == "" || q.Limit == l.Name) && (q.of(l.Entity, l.Resource) || q.of(r.Entity, r.Resource))
	})
}

// of reports whether a query is about a bucket.
func (q *Query) of(entity, resource string) bool {
	return (q.Entity == "" || q.Entity == entity) && (q.Resource == "" || q.Resource == resource)
}
