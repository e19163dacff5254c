package drive

import (
	"context"
	"errors"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive/setup"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/calls"
)

// A Client is what one process has: a limiter, and the store below it.
type Client struct {
	Limiter *limiter.Limiter
	Store   *dynamo.Store
}

// Do carries out an operation. consume is what it asks for by name, nil if that is to be made of op.
func (c *Client) Do(ctx context.Context, p *scenario.Plan, now func() time.Time, op *scenario.Op, consume map[string]int64) Answer {
	began := now()
	lease, err := c.ask(ctx, p, op, consume)
	a := Answer{Asked: now().Sub(began), Err: err}
	if err != nil && !errors.Is(err, limiter.ErrExceeded) {
		a.Took = TookMaybe
	}
	if lease == nil {
		return a
	}
	if op.Hold > 0 {
		if err := calls.Sleep(ctx, nil, op.Hold); err != nil {
			return Answer{Took: TookAll, Asked: a.Asked, Err: err}
		}
	}
	a.Held, began = op.Hold, now()
	a.Took, a.Err = settle(ctx, lease, &p.Resources[op.Resource], op)
	a.Settled = now().Sub(began)
	return a
}

// ask carries out an operation up to its lease; only an acquire has one.
func (c *Client) ask(ctx context.Context, p *scenario.Plan, op *scenario.Op, consume map[string]int64) (*limiter.Lease, error) {
	if op.Kind != scenario.Acquire && op.Kind != scenario.Available {
		return nil, setup.Manage(ctx, c.Store, p, op)
	}
	of := &p.Resources[op.Resource]
	if consume == nil {
		consume = make(map[string]int64, len(op.Limits))
		for _, i := range op.Limits {
			consume[of.Limits[i].Name] = op.Consume[i]
		}
	}
	// A store that cannot be reached fails the request, and does not grant it.
	r := limiter.Request{Entity: p.Entities[op.Entity].ID, Resource: of.Name, Consume: consume, OnUnavailable: limiter.Block}
	if op.Kind == scenario.Available {
		_, err := c.Limiter.Available(ctx, r)
		return nil, err
	}
	return c.Limiter.Acquire(ctx, r)
}

// settle commits what an operation has used.
func settle(ctx context.Context, lease *limiter.Lease, of *scenario.Resource, op *scenario.Op) (Taken, error) {
	took := TookAll
	for i, used := range op.Settle {
		if delta := used - op.Consume[i]; delta != 0 {
			if err := lease.Adjust(of.Limits[i].Name, delta); err != nil {
				return TookAll, err
			}
			took = TookUsed
		}
	}
	if err := lease.Commit(ctx); err != nil {
		return TookEither, err
	}
	return took, nil
}
