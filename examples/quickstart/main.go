// Command quickstart shows the whole limiter on one page. A project and its two API keys
// share a model's rate limits, in a table that lives in this process. It needs no
// installation and no AWS account.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

//nolint:forbidigo // a program's own streams and exit code
func main() {
	if err := run(context.Background(), printer{os.Stdout}); err != nil {
		printer{os.Stderr}.print("quickstart: %v", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out printer) (err error) {
	// To use DynamoDB, pass a *dynamodb.Client instead of the engine. The meter is only
	// there to print the bill.
	engine := dynamolite.New(dynamolite.Options{})
	defer func() { err = errors.Join(err, engine.Close()) }()
	meter := dynamo.NewMeter(engine)
	if err := dynamo.CreateTable(ctx, meter, dynamo.TableOptions{Name: "limits"}); err != nil {
		return err
	}
	store, err := dynamo.Open(ctx, dynamo.Options{API: meter, Table: "limits"})
	if err != nil {
		return err
	}
	out.print("1. A project and two API keys that cascade to it:")
	if err := configure(ctx, store, out); err != nil {
		return err
	}
	setup := meter.Totals()

	limits, err := limiter.New(store, limiter.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, limits.Close()) }()

	out.print("\n2. alice reserves 800 tokens, and the model uses 500: 300 go back.")
	if err := chat(ctx, limits, out, "alice", 800, 500); err != nil {
		return err
	}
	out.print("\n3. bob reserves 600 tokens, and the model uses 700: 100 more are taken.")
	if err := chat(ctx, limits, out, "bob", 600, 700); err != nil {
		return err
	}

	out.print("\n4. alice asks for 900 tokens: her key or the project has fewer left.")
	err = chat(ctx, limits, out, "alice", 900, 900)
	var refused *limiter.ExceededError
	if !errors.As(err, &refused) {
		return fmt.Errorf("expected a refusal, got: %w", err)
	}
	for _, s := range refused.Statuses {
		verdict := "enough"
		if s.Exceeded {
			verdict = fmt.Sprintf("refused, for %v", s.RetryAfter)
		}
		out.print("   %-5s %s: asked %3d, has %3d: %s", s.Entity, s.Limit.Name, s.Requested, s.Available, verdict)
	}

	// The wait covers both sides, and is exact: a millisecond earlier the request would be
	// refused again.
	out.print("\n5. Waiting %v, exactly what the refusal says, and asking again.", refused.RetryAfter())
	time.Sleep(refused.RetryAfter())
	if err := chat(ctx, limits, out, "alice", 900, 900); err != nil {
		return err
	}

	out.print("\nWhat DynamoDB would have billed:")
	bill(out, "to set up", setup)
	bill(out, "to decide and settle", meter.Totals().Sub(setup))
	return nil
}

// configure gives every key limits on gpt-4. The project gets limits of its own, which all
// its keys share.
func configure(ctx context.Context, store *dynamo.Store, out printer) error {
	perKey := []limiter.Limit{
		limiter.PerMinute("rpm", 60),
		limiter.PerMinute("tpm", 12_000, limiter.Burst(1000)), // 200 tokens a second, 1000 at once
	}
	perProject := []limiter.Limit{
		limiter.PerMinute("rpm", 100),
		limiter.PerMinute("tpm", 15_000, limiter.Burst(1500)), // 250 tokens a second, 1500 at once
	}
	if err := store.SetLimits(ctx, limiter.ConfigKey{Resource: "gpt-4"}, perKey); err != nil {
		return err
	}
	if err := store.SetLimits(ctx, limiter.ConfigKey{Entity: "acme", Resource: "gpt-4"}, perProject); err != nil {
		return err
	}
	entities := []limiter.Entity{
		{ID: "acme", Name: "ACME, Inc."},
		{ID: "alice", Parent: "acme", Cascade: true},
		{ID: "bob", Parent: "acme", Cascade: true},
	}
	for _, e := range entities {
		if _, err := store.CreateEntity(ctx, e); err != nil {
			return err
		}
	}
	out.print("   each key 12,000 tokens a minute and 1,000 at once, the project 15,000 and 1,500.")
	return nil
}

// chat reserves tokens for a key, calls the model, and settles what it used. If the model
// failed, Do would return all reserved tokens.
func chat(ctx context.Context, limits *limiter.Limiter, out printer, key string, reserve, used int64) error {
	request := limiter.Request{
		Entity: key, Resource: "gpt-4",
		Consume: map[string]int64{"rpm": 1, "tpm": reserve},
	}
	return limits.Do(ctx, request, func(_ context.Context, lease *limiter.Lease) error {
		for _, s := range lease.Statuses() {
			out.print("   admitted: %-5s has %4d of %5d %s left", s.Entity, s.Available, s.Limit.Capacity, s.Limit.Name)
		}
		model()
		out.print("   the model answered with %d tokens", used)
		return lease.Settle("tpm", used)
	})
}

// model simulates a call that takes time.
func model() { time.Sleep(100 * time.Millisecond) }

func bill(out printer, what string, totals dynamo.Totals) {
	out.print("   %-20s  requests  RCU  WCU", what)
	row := func(name string, u dynamo.Usage) {
		out.print("   %20s  %8d  %3.4g  %3.4g", name, u.Requests, u.RCU, u.WCU)
	}
	for _, operation := range slices.Sorted(maps.Keys(totals)) {
		row(operation, totals[operation])
	}
	row("total", totals.Sum())
}

// A printer prints lines.
type printer struct{ io.Writer }

func (p printer) print(format string, args ...any) {
	_, _ = fmt.Fprintf(p, format+"\n", args...) // there is nowhere to report an error
}
