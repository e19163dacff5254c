package loadtest

import (
	"context"
	"errors"
	"log/slog"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/fleet"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust/perform"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// planOf is the plan of a scenario that workers of a Locust master can carry out.
func planOf(s *scenario.Scenario) (*scenario.Plan, error) {
	plan, err := s.Plan()
	if err != nil {
		return nil, err
	}
	return plan, perform.Check(plan)
}

// clientsOf makes as many clients as a scenario has limiters.
func clientsOf(ctx context.Context, a *app.App, plan *scenario.Plan) (all []drive.Client, err error) {
	for range max(plan.Limiters, 1) {
		c, err := clientOf(ctx, a)
		if err != nil {
			return nil, errors.Join(err, closeAll(all))
		}
		all = append(all, c)
	}
	return all, nil
}

func clientOf(ctx context.Context, a *app.App) (c drive.Client, err error) {
	if c.Store, err = a.Store(ctx); err != nil {
		return c, err
	}
	c.Limiter, err = a.Limiter(c.Store)
	return c, err
}

func closeAll(clients []drive.Client) (err error) {
	for _, c := range clients {
		err = errors.Join(err, c.Limiter.Close())
	}
	return err
}

// setUp writes the limits and entities of a plan, as [perform.Actor.SetUp] does.
func setUp(ctx context.Context, o dynamo.Options, plan *scenario.Plan) (err error) {
	opened, err := dynamo.Open(ctx, o)
	if err != nil {
		return err
	}
	l, err := limiter.New(opened, limiter.Options{Logger: o.Logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	actor, err := perform.New(plan, []drive.Client{{Limiter: l, Store: opened}}, o.Now)
	if err != nil {
		return err
	}
	return actor.SetUp(ctx)
}

// maxGrace is what is left of the margin of a function to send the last statistics.
const maxGrace = fleet.Margin - 10*time.Second

// carryWithLocust carries out jobs as a worker of a Locust master. It sets nothing up: the
// deployment has done so.
func carryWithLocust(_ context.Context, a *app.App, log *slog.Logger) (fleet.Carry, error) {
	return func(ctx context.Context, j fleet.Job, stop <-chan struct{}) (err error) {
		plan, err := planOfText(j.Scenario, j.File)
		if err != nil {
			return err
		}
		a.Flags.Namespace = j.Namespace // jobs come one after another
		clients, err := clientsOf(ctx, a, plan)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeAll(clients)) }()
		actor, err := perform.New(plan, clients, a.Now)
		if err != nil {
			return err
		}
		worker, err := locust.New(locust.Options{
			Master: j.Master, Load: actor, Name: j.ID, Logger: log, Now: a.Now, MaxGrace: maxGrace,
			Patience: max(j.ConnectBy.Sub(a.Clock()), 1),
		})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-stop:
				cancel()
			case <-ctx.Done():
			}
		}()
		return worker.Run(ctx)
	}, nil
}

// planOfText is the plan of a scenario of the program, or of the text of a file.
func planOfText(name, file string) (*scenario.Plan, error) {
	s, err := scenario.Builtin(name)
	if file != "" {
		s, err = scenario.Parse("scenario.yaml", []byte(file))
	}
	if err != nil {
		return nil, err
	}
	return planOf(s)
}
