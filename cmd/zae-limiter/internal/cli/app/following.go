package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

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
}

// Follows adds to a command what it needs for a change that buckets follow.
func (a *App) Follows(cmd *cobra.Command) *Following {
	f := &Following{a, a.Confirmation(cmd)}
	a.BindPrincipal(cmd)
	return f
}

// FollowingBuckets count the buckets that follow a change.
type FollowingBuckets struct {
	Reached int `json:"reached"` // buckets that follow
	Changed int `json:"changed"` // of those reached, how many were different
}

// Outcome writes for people what a change has done, and the counts. An earlier call with the key of
// the change may have made it.
func (n FollowingBuckets) Outcome(w *strings.Builder, done string, repeated bool) {
	if repeated {
		done = "set before with this key; nothing was changed now but buckets, which follow what holds by now"
	}
	w.WriteString(done + "\n")
	fmt.Fprintf(w, "buckets that follow: %d, of which %d were different\n", n.Reached, n.Changed)
}

// Make makes a change that the buckets below a level follow. what is the beginning of the
// question. An earlier call with the key of the change may have made it: see [dynamo.Switched].
func (f *Following) Make(ctx context.Context, k store.ConfigKey, what string, change func(context.Context, *dynamo.Store, func(dynamo.Switched)) (dynamo.Switched, error)) (b FollowingBuckets, done dynamo.Switched, err error) {
	s, err := f.app.Store(ctx)
	if err != nil {
		return b, done, err
	}
	n, err := s.CountBuckets(ctx, k)
	if err != nil {
		return b, done, err
	}
	if n > fewBuckets {
		if err := f.confirm.Validate(); err != nil {
			return b, done, &UsageError{fmt.Errorf("%d buckets follow: %w", n, err)}
		}
		if err := f.confirm.Ask(ctx, fmt.Sprintf("%s, so that %d buckets follow?", what, n)); err != nil {
			return b, done, err
		}
	}
	done, err = change(ctx, s, func(sofar dynamo.Switched) {
		const every = 100
		if f.app.Terminal && sofar.Reached%every == 0 {
			f.app.Notef("%d of %d buckets", sofar.Reached, max(n, sofar.Reached))
		}
	})
	return FollowingBuckets{done.Reached, done.Changed}, done, err
}
