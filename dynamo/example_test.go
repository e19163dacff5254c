package dynamo_test

import (
	"context"
	"errors"
	"fmt"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// newExample is a table in this process. On AWS, a *dynamodb.Client takes its place, and
// "zae-limiter deploy" has made the table.
func newExample(ctx context.Context) dynamo.API {
	engine := dynamolite.New(dynamolite.Options{})
	if err := dynamo.CreateTable(ctx, engine, dynamo.TableOptions{Name: "limits"}); err != nil {
		panic(err)
	}
	return engine
}

// Open sends one request and creates nothing.
func ExampleOpen() {
	ctx := context.Background()
	api := newExample(ctx)

	_, err := dynamo.Open(ctx, dynamo.Options{API: api, Table: "limits", Namespace: "prod"})
	fmt.Println("prod exists:", !errors.Is(err, limiter.ErrNotFound))

	store, err := dynamo.Open(ctx, dynamo.Options{API: api, Table: "limits"})
	if err != nil {
		panic(err)
	}
	name, _ := store.Namespace()
	fmt.Println("opened:", name)
	// Output:
	// prod exists: false
	// opened: default
}

// SetLimits replaces all limits of one level. Here it is the level of a resource.
func ExampleStore_SetLimits() {
	ctx := context.Background()
	store, err := dynamo.Open(ctx, dynamo.Options{API: newExample(ctx), Table: "limits"})
	if err != nil {
		panic(err)
	}
	level := limiter.ConfigKey{Resource: "gpt-4"}
	if err := store.SetLimits(ctx, level, []limiter.Limit{limiter.PerMinute("rpm", 100)}); err != nil {
		panic(err)
	}
	config, err := store.Limits(ctx, level)
	if err != nil {
		panic(err)
	}
	fmt.Println(config.Limits)
	// Output: [rpm: 100 every 1m0s]
}

// Without the limits of a level, the next level holds.
func ExampleStore_DeleteLimits() {
	ctx := context.Background()
	store, err := dynamo.Open(ctx, dynamo.Options{API: newExample(ctx), Table: "limits"})
	if err != nil {
		panic(err)
	}
	own := limiter.ConfigKey{Entity: "key-1", Resource: "gpt-4"}
	if err := errors.Join(
		store.SetLimits(ctx, limiter.ConfigKey{Resource: "gpt-4"}, []limiter.Limit{limiter.PerMinute("rpm", 100)}),
		store.SetLimits(ctx, own, []limiter.Limit{limiter.PerMinute("rpm", 500)}),
	); err != nil {
		panic(err)
	}
	limits, err := limiter.New(store, limiter.Options{ConfigTTL: -1}) // sees each change at once
	if err != nil {
		panic(err)
	}
	defer limits.Close()
	show := func() {
		holds, err := limits.Limits(ctx, own.Entity, own.Resource)
		if err != nil {
			panic(err)
		}
		fmt.Println(holds.Level, holds.Limits)
	}

	show()
	if err := store.DeleteLimits(ctx, own); err != nil {
		panic(err)
	}
	show()
	// Output:
	// entity_resource [rpm: 500 every 1m0s]
	// resource [rpm: 100 every 1m0s]
}

// SetSystem says what holds for every entity and resource without limits of its own, and
// what follows if the table does not answer.
func ExampleStore_SetSystem() {
	ctx := context.Background()
	store, err := dynamo.Open(ctx, dynamo.Options{API: newExample(ctx), Table: "limits"})
	if err != nil {
		panic(err)
	}
	if err := store.SetSystem(ctx, []limiter.Limit{limiter.PerMinute("rpm", 60)}, limiter.Allow); err != nil {
		panic(err)
	}
	config, err := store.Limits(ctx, limiter.ConfigKey{})
	if err != nil {
		panic(err)
	}
	fmt.Println(config.Limits, config.OnUnavailable)
	// Output: [rpm: 60 every 1m0s] allow
}

// Each change of limits has an event, which names the principal.
func ExampleStore_AuditEvents() {
	ctx := context.Background()
	store, err := dynamo.Open(ctx, dynamo.Options{API: newExample(ctx), Table: "limits", Principal: "ann"})
	if err != nil {
		panic(err)
	}
	if err := store.SetLimits(ctx, limiter.ConfigKey{Resource: "gpt-4"}, []limiter.Limit{limiter.PerMinute("rpm", 100)}); err != nil {
		panic(err)
	}
	page, err := store.AuditEvents(ctx, audit.Query{Entity: audit.Resource("gpt-4")})
	if err != nil {
		panic(err)
	}
	for _, e := range page.Events {
		fmt.Println(e.Principal, e.Action, e.Resource)
	}
	// Output: ann limits_set gpt-4
}

// Entities are listed in pages.
func ExampleStore_Entities() {
	ctx := context.Background()
	store, err := dynamo.Open(ctx, dynamo.Options{API: newExample(ctx), Table: "limits"})
	if err != nil {
		panic(err)
	}
	for _, id := range []string{"acme", "key-1", "key-2", "key-3"} {
		if _, err := store.CreateEntity(ctx, limiter.Entity{ID: id}); err != nil {
			panic(err)
		}
	}
	query := dynamo.EntityQuery{Prefix: "key-", Limit: 2}
	for {
		page, err := store.Entities(ctx, query)
		if err != nil {
			panic(err)
		}
		for _, e := range page.Entities {
			fmt.Println(e.ID)
		}
		if query.Cursor = page.Next; query.Cursor == "" {
			break
		}
	}
	// Output:
	// key-1
	// key-2
	// key-3
}

// A cascade has one level: a key cascades to its project, and the project to nobody.
func ExampleStore_CreateEntity() {
	ctx := context.Background()
	store, err := dynamo.Open(ctx, dynamo.Options{API: newExample(ctx), Table: "limits"})
	if err != nil {
		panic(err)
	}
	for _, e := range []limiter.Entity{
		{ID: "acme", Name: "ACME, Inc."},
		{ID: "project", Parent: "acme", Cascade: true},
		{ID: "key-1", Parent: "project", Cascade: true},
	} {
		_, err := store.CreateEntity(ctx, e)
		fmt.Println(e.ID, "is nested:", errors.Is(err, limiter.ErrNestedCascade))
	}
	// Output:
	// acme is nested: false
	// project is nested: false
	// key-1 is nested: true
}

// A meter counts what requests cost.
func ExampleNewMeter() {
	ctx := context.Background()
	meter := dynamo.NewMeter(newExample(ctx))
	store, err := dynamo.Open(ctx, dynamo.Options{API: meter, Table: "limits"})
	if err != nil {
		panic(err)
	}
	limits, err := limiter.New(store, limiter.Options{})
	if err != nil {
		panic(err)
	}
	defer limits.Close()
	acquire := func() {
		_, err := limits.Acquire(ctx, limiter.Request{
			Entity: "key-1", Resource: "api", Consume: map[string]int64{"rpm": 1, "rph": 1},
			Fallback: []limiter.Limit{limiter.PerMinute("rpm", 60), limiter.PerHour("rph", 1_000)},
		})
		if err != nil {
			panic(err)
		}
	}

	acquire() // makes the bucket
	before := meter.Totals()
	acquire()
	cost := meter.Totals().Sub(before).Sum()
	fmt.Println("requests:", cost.Requests, "write units:", cost.WCU)
	// Output: requests: 1 write units: 1
}
