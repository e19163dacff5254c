package manifest_test

import (
	"context"
	"fmt"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A file declares the limits of the namespace. The manager shows what would change, and
// applies it. A second plan of the same file has no changes.
func Example() {
	ctx := context.Background()
	engine := dynamolite.New(dynamolite.Options{})
	defer engine.Close()
	if err := dynamo.CreateTable(ctx, engine, dynamo.TableOptions{Name: "limits"}); err != nil {
		panic(err)
	}
	store, err := dynamo.Open(ctx, dynamo.Options{API: engine, Table: "limits"})
	if err != nil {
		panic(err)
	}
	file, err := manifest.Parse("limits.yaml", []byte(`
namespace: default
resources:
  gpt-4:
    limits:
      rpm: {capacity: 500}
`))
	if err != nil {
		panic(err)
	}
	manager, err := manifest.New(store)
	if err != nil {
		panic(err)
	}
	plan, err := manager.Plan(ctx, file, false)
	if err != nil {
		panic(err)
	}
	for _, change := range plan.Changes {
		level, target := change.Level()
		fmt.Println(change.Action, level, target)
	}
	result, err := manager.Apply(ctx, file, manifest.ApplyOptions{Expected: plan})
	if err != nil {
		panic(err)
	}
	fmt.Println("failures:", len(result.Failures()))
	if plan, err = manager.Plan(ctx, file, false); err != nil {
		panic(err)
	}
	fmt.Println("further changes:", plan.HasChanges())
	config, err := store.Limits(ctx, limiter.ConfigKey{Resource: "gpt-4"})
	if err != nil {
		panic(err)
	}
	fmt.Println(config.Limits[0].Name, config.Limits[0].Capacity)
	// Output:
	// create resource gpt-4
	// failures: 0
	// further changes: false
	// rpm 500
}
