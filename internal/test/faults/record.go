package faults

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A Recorder keeps the requests that pass it. The zero value is ready.
type Recorder struct {
	mu  sync.Mutex
	all []Request
}

// A Request is one that a [Recorder] kept.
type Request struct {
	Op     string
	Input  any       // as the recorder saw it, the sender's own
	Shards []int     // the shards among the buckets that it names
	At     time.Time // when it passed the recorder
}

// now is the local clock, which is virtual in a bubble.
var now = time.Now //nolint:forbidigo // the default of every clock here

// Record is the [Hook] that keeps every request, before it sends it on.
func (r *Recorder) Record(ctx context.Context, c *Call, next Next) error {
	r.mu.Lock()
	r.all = append(r.all, Request{c.Op, c.Input, c.Shards(), now()})
	r.mu.Unlock()
	return next(ctx)
}

// Requests returns the requests since the last call of Take, in order.
func (r *Recorder) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// Take returns the requests since the last call of Take, and forgets them.
func (r *Recorder) Take() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// Ops returns the operations of the requests since the last call of Take, in order.
func (r *Recorder) Ops() []string {
	var ops []string
	for _, q := range r.Requests() {
		ops = append(ops, q.Op)
	}
	return ops
}

// Inputs returns the inputs of the requests since the last call of Take, in order.
func (r *Recorder) Inputs() []any {
	var all []any
	for _, q := range r.Requests() {
		all = append(all, q.Input)
	}
	return all
}

// Count returns how many requests since the last call of Take are of an operation.
func (r *Recorder) Count(op string) int { return Count(r.Requests(), op) }

// Count returns how many requests are of an operation.
func Count(all []Request, op string) (n int) {
	for _, q := range all {
		if q.Op == op {
			n++
		}
	}
	return n
}
