package httplimit

import (
	"context"
	"net/http"

	limiter "github.com/zeroae/zae-limiter-go"
)

// An Acquirer decides requests. A [*limiter.Limiter] is one.
type Acquirer interface {
	// Acquire takes every amount that the request names, or none, as
	// [limiter.Limiter.Acquire] does, and returns errors of the same conditions.
	Acquire(ctx context.Context, req limiter.Request) (*limiter.Lease, error)
}

// An AcquirerFunc is a function as an [Acquirer].
type AcquirerFunc func(ctx context.Context, req limiter.Request) (*limiter.Lease, error)

// Acquire calls the function.
func (f AcquirerFunc) Acquire(ctx context.Context, req limiter.Request) (*limiter.Lease, error) {
	return f(ctx, req)
}

var (
	_ Acquirer = (*limiter.Limiter)(nil)
	_ Acquirer = AcquirerFunc((*limiter.Limiter)(nil).Acquire)
)

// of makes a function of a request one that takes a context, too, as other protocols have them.
func of[T any](f func(*http.Request) (T, error)) func(context.Context, *http.Request) (T, error) {
	if f == nil {
		return nil
	}
	return func(_ context.Context, r *http.Request) (T, error) { return f(r) }
}
