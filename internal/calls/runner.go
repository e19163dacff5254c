package calls

import (
	"context"
	"sync"
)

// A Runner decides on which goroutine work runs. A [Crew] chooses its runner once: work
// that waits for a network runs apart from its caller, who may leave; work that never
// waits runs inline.
type Runner interface {
	// AtOnce runs n pieces of work, and returns when all have ended.
	AtOnce(n int, work func(i int))
	// Soon runs work that a caller may wait for later.
	Soon(work func())
	// HasReturned reports whether the caller of a carried call (see [Carry]) may have
	// left it, because one of its contexts has ended.
	HasReturned(ctx, bound context.Context) bool
	// Shorten bounds work by a part of the time of a call.
	Shorten(ctx context.Context) (context.Context, context.CancelFunc)
}

// apart runs work on goroutines of its own.
type apart struct{ *Crew }

// AtOnce runs all but the first piece of work on other goroutines.
func (a apart) AtOnce(n int, work func(i int)) {
	if n == 1 {
		work(0)
	}
	if n < 2 {
		return
	}
	var others sync.WaitGroup
	for i := 1; i < n; i++ {
		others.Add(1)
		a.workers.Run(func() {
			defer others.Done()
			work(i)
		})
	}
	work(0)
	others.Wait()
}

// Soon runs work in the background.
func (a apart) Soon(work func()) { a.InBackground(work) }

// HasReturned reports whether a context has ended.
func (apart) HasReturned(ctx, bound context.Context) bool {
	return ctx.Err() != nil || bound.Err() != nil
}

// Shorten sets a timer.
func (a apart) Shorten(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.Part())
}

// inline runs work on the caller's goroutine.
type inline struct{ *Crew }

// AtOnce runs one piece of work after the other.
func (inline) AtOnce(n int, work func(i int)) {
	for i := range n {
		work(i)
	}
}

// Soon runs work now.
func (inline) Soon(work func()) { work() }

// HasReturned is false: the caller waits for the end.
func (inline) HasReturned(context.Context, context.Context) bool { return false }

// Shorten changes nothing.
func (inline) Shorten(ctx context.Context) (context.Context, context.CancelFunc) {
	return ctx, func() {}
}
