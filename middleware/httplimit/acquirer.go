package httplimit

import (
	"context"
	"maps"
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

// asker makes the limiter's requests of HTTP requests.
type asker struct {
	entity, resource Key
	cost             func(*http.Request) (map[string]int64, error)
	// base has what is the same for every request. Limiters only read its map.
	base limiter.Request
}

// request makes the limiter's request. If it fails, the request has what was found so far.
func (a *asker) request(r *http.Request) (req limiter.Request, err error) {
	req = a.base
	if req.Entity, err = a.entity(r); err != nil {
		return req, err
	}
	if req.Resource, err = a.resource(r); err != nil {
		return req, err
	}
	if a.cost != nil {
		req.Consume, err = a.cost(r)
	}
	return req, err
}

// newAsker checks what New and NewTransport have in common.
func newAsker(limits Acquirer, a asker) (asker, error) {
	if limits == nil {
		return a, &limiter.ValidationError{Field: "limits", Value: "nil", Reason: "give a limiter"}
	}
	if a.cost != nil && a.base.Consume != nil {
		return a, &limiter.ValidationError{Field: "cost", Reason: "give either Consume or Cost"}
	}
	a.base.Consume = maps.Clone(a.base.Consume)
	if a.base.Consume == nil {
		a.base.Consume = map[string]int64{DefaultLimit: 1}
	}
	probe := a.base
	probe.Entity, probe.Resource = "probe", "probe"
	return a, probe.Validate()
}
