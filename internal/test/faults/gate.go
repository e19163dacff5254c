package faults

import (
	"context"
	"sync"
)

// A Gate holds calls until a test opens it; from then on they pass. A call whose context
// ends before fails at once. Make it inside the bubble in which it is used.
type Gate struct {
	open chan struct{}
	once sync.Once
}

// NewGate returns a closed gate.
func NewGate() *Gate { return &Gate{open: make(chan struct{})} }

// Open lets the held calls and all later ones pass. Further calls do nothing.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }

func (g *Gate) wait(ctx context.Context) error {
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Requests is a [Hook] that holds requests before they reach the table.
func (g *Gate) Requests(ctx context.Context, _ *Call, next Next) error {
	if err := g.wait(ctx); err != nil {
		return err
	}
	return next(ctx)
}

// Answers is a [Hook] that holds the answers of requests that have taken effect.
func (g *Gate) Answers(ctx context.Context, _ *Call, next Next) error {
	err := next(ctx)
	if lost := g.wait(ctx); lost != nil {
		return lost
	}
	return err
}
