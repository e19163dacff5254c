package page

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

// Binds is binds.
func Binds(own, parent *limiter.Balance) string { return binds(own, parent) }

// PercentOf is percentOf.
func PercentOf(used float64) int64 { return percentOf(used) }

// Wait is wait.
func Wait(d time.Duration) string { return wait(d) }

// DiagramsOf is diagramsOf.
func DiagramsOf(w usage.Window, first time.Time, windows int, snapshots []usage.Snapshot) []diagram {
	return diagramsOf(w, first, windows, snapshots)
}

// Tops are those of a handler.
type Tops struct{ tops }

// NewTops are none yet.
func NewTops(now func() time.Time) *Tops { return &Tops{tops{now: now}} }

// Get is get.
func (t *Tops) Get(ctx context.Context, resource string, read func() (manage.Top, error)) (manage.Top, time.Time, error) {
	return t.get(ctx, topKey{resource: resource}, func(context.Context, topKey) (manage.Top, error) { return read() })
}
