package fleet

import (
	"context"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
)

// Locust is a master that is seen through its web page.
type Locust struct{ Page *swarm.Page }

var _ Master = Locust{}

// Look reads the state of the master.
func (l Locust) Look(ctx context.Context) (View, error) {
	look, err := l.Page.Look(ctx)
	if err != nil {
		return View{}, err
	}
	return View{State: look.State, Users: look.Users, Workers: look.Workers}, nil
}
