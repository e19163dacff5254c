package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/store"
)

type availableOptions struct {
	app      *app.App
	request  limiter.Request
	consume  limitarg.Amounts
	fallback app.LimitsFlag
}

func newAvailable(a *app.App) *cobra.Command {
	o := &availableOptions{app: a}
	cmd := &cobra.Command{
		Use:   "available ENTITY RESOURCE",
		Short: "Show balances, and how long a request would have to wait",
		Long: "Show how many tokens of a resource an entity may take now, and its parent if it cascades.\n" +
			"With --consume, show only the limits it names, and how long that request would have to\n" +
			"wait. The command takes nothing, and its exit code is 0 whatever the balances.",
		Example: "  zae-limiter available key-1 gpt-4\n" +
			"  zae-limiter available key-1 gpt-4 --consume rpm=1,tpm=500 --output json",
		Args: app.Args("ENTITY", "RESOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.request.Entity, o.request.Resource = args[0], args[1]
			return a.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().VarP(&o.consume, "consume", "c", "tokens to ask for, separated by commas (default 0 of\nevery limit)")
	o.fallback.BindFallback(cmd)
	return cmd
}

// Validate checks the request.
func (o *availableOptions) Validate() error {
	o.request.Consume, o.request.Fallback = o.consume, o.fallback.Limits
	if len(o.request.Consume) > 0 {
		return o.request.Validate()
	}
	if err := store.CheckEntity(o.request.Entity); err != nil {
		return err
	}
	if err := store.CheckResource(o.request.Resource); err != nil {
		return err
	}
	return store.ValidateLimits(o.request.Fallback)
}

// declared requests 0 of each limit.
func declared(limits []limiter.Limit) map[string]int64 {
	consume := make(map[string]int64, len(limits))
	for _, l := range limits {
		consume[l.Name] = 0
	}
	return consume
}

// Run shows the balances.
func (o *availableOptions) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	if len(o.request.Consume) == 0 {
		if o.request.Consume, err = o.everyLimit(ctx, store); err != nil {
			return err
		}
	}
	l, err := o.app.Limiter(store)
	if err != nil {
		return err
	}
	statuses, err := l.Available(ctx, o.request)
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	after := longestWait(statuses)
	return o.app.Print(struct {
		Available  bool             `json:"available"`
		RetryAfter *int64           `json:"retry_after_ms"` // null if no wait helps
		Statuses   []limiter.Status `json:"statuses"`
	}{after == 0, millis(after), statuses}, func(w *strings.Builder) { printStatuses(w, statuses) })
}

// everyLimit requests 0 of each limit of the entity, and of its parent if it cascades.
func (o *availableOptions) everyLimit(ctx context.Context, store *dynamo.Store) (map[string]int64, error) {
	consume, parent, err := limitsOf(ctx, store, o.request.Entity, o.request.Resource)
	if err != nil {
		return nil, err
	}
	if len(consume) == 0 {
		consume = declared(o.request.Fallback)
	}
	if parent != "" {
		more, _, err := limitsOf(ctx, store, parent, o.request.Resource)
		if err != nil {
			return nil, err
		}
		for name := range more {
			consume[name] = 0
		}
	}
	if len(consume) == 0 {
		return nil, &limiter.NotConfiguredError{Entity: o.request.Entity, Resource: o.request.Resource}
	}
	return consume, nil
}

// limitsOf returns the names of the limits configured for an entity's bucket, and the
// parent that the entity cascades to.
func limitsOf(ctx context.Context, s *dynamo.Store, entity, resource string) (names map[string]int64, parent string, err error) {
	loaded, err := s.Load(ctx, &store.Load{Entity: entity, Configs: []limiter.ConfigKey{
		{Entity: entity, Resource: resource}, {Entity: entity, Resource: limiter.DefaultResource}, {Resource: resource}, {},
	}})
	if err != nil {
		return nil, "", err
	}
	cascade := store.Inherit
	for _, c := range loaded.Configs {
		if c == nil {
			continue
		}
		if names == nil && len(c.Limits) > 0 {
			names = declared(c.Limits)
		}
		if cascade == store.Inherit {
			cascade = c.Cascade
		}
	}
	if e := loaded.Entity; e != nil && (cascade == store.Yes || cascade == store.Inherit && e.Cascade) {
		parent = e.Parent
	}
	return names, parent, nil
}
