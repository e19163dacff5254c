package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// fewBuckets is how many buckets a change may concern before the command asks.
const fewBuckets = 10

// Reach tells in help how a change reaches buckets.
const Reach = "\n\nBuckets that exist follow before the command returns. If there are more than ten, the\n" +
	"command says how many, and asks first."

// A Following makes a change that buckets follow, and asks before if they are many.
type Following struct {
	app     *App
	confirm *Confirmation
	dryRun  bool
}

// Follows adds to a command what it needs for a change that buckets follow.
func (a *App) Follows(cmd *cobra.Command) *Following {
	f := &Following{app: a, confirm: a.Confirmation(cmd)}
	bindDryRun(cmd, &f.dryRun)
	a.BindPrincipal(cmd)
	return f
}

// Outcome writes for people what a change has done, and the counts. An earlier call with the key of
// the change may have made it.
func (f *Following) Outcome(w *strings.Builder, n manage.FollowingBuckets, done string, repeated bool) {
	if f.dryRun {
		fmt.Fprintf(w, "dry run, nothing was changed: without --dry-run, %s\nbuckets that would follow: %d\n", done, n.Reached)
		return
	}
	if repeated {
		done = "set before with this key; nothing was changed now but buckets, which follow what holds by now"
	}
	w.WriteString(done + "\n")
	fmt.Fprintf(w, "buckets that follow: %d, of which %d were different\n", n.Reached, n.Changed)
}

// Ready opens the store for a change that the buckets below a level follow, and asks if they are many.
// what is the beginning of the question.
func (f *Following) Ready(ctx context.Context, k store.ConfigKey, what string) (*dynamo.Store, manage.Follow, error) {
	how := manage.Follow{DryRun: f.dryRun}
	s, err := f.app.Store(ctx)
	if err != nil || f.dryRun {
		return s, how, err
	}
	n, err := s.CountBuckets(ctx, k)
	if err != nil {
		return nil, how, err
	}
	if n > fewBuckets {
		if err := f.confirm.Validate(); err != nil {
			return nil, how, &UsageError{fmt.Errorf("%d buckets follow: %w", n, err)}
		}
		if err := f.confirm.Ask(ctx, fmt.Sprintf("%s, so that %d buckets follow?", what, n)); err != nil {
			return nil, how, err
		}
	}
	how.Progress = func(sofar dynamo.Switched) {
		const every = 100
		if f.app.Terminal && sofar.Reached%every == 0 {
			f.app.Notef("%d of %d buckets", sofar.Reached, max(n, sofar.Reached))
		}
	}
	return s, how, nil
}
