package admin_test

import (
	"context"
	"fmt"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// Check says whether this program works with a table, and what is missing.
func ExampleTable_Check() {
	ctx := context.Background()
	engine := dynamolite.New(dynamolite.Options{})
	defer engine.Close()
	if err := dynamo.CreateTable(ctx, engine, dynamo.TableOptions{Name: "limits"}); err != nil {
		panic(err)
	}
	table, err := admin.New(admin.Options{API: engine, Table: "limits"})
	if err != nil {
		panic(err)
	}
	report, err := table.Check(ctx, "default")
	if err != nil {
		panic(err)
	}
	fmt.Println("compatible:", len(report.Problems) == 0)
	for _, warning := range report.Warnings {
		fmt.Println(warning.What)
		fmt.Println("try:", warning.Do)
	}
	for _, permission := range report.Permissions {
		if permission.Denied() {
			fmt.Println("missing:", permission.Action, permission.Resource)
		}
	}
	// Output:
	// compatible: true
	// the table has no stream: no aggregator can work, and usage lacks the last hours of buckets that expire
	// try: zae-limiter table enable-stream
}

// Each namespace of a table has entities, limits and buckets of its own.
func ExampleNamespaces_Register() {
	ctx := context.Background()
	engine := dynamolite.New(dynamolite.Options{})
	defer engine.Close()
	if err := dynamo.CreateTable(ctx, engine, dynamo.TableOptions{Name: "limits"}); err != nil {
		panic(err)
	}
	namespaces, err := admin.NewNamespaces(dynamo.Options{API: engine, Table: "limits"})
	if err != nil {
		panic(err)
	}
	if _, err := namespaces.Register(ctx, "prod"); err != nil {
		panic(err)
	}
	all, err := namespaces.List(ctx)
	if err != nil {
		panic(err)
	}
	for _, n := range all {
		fmt.Println(n.Name)
	}
	// Output:
	// default
	// prod
}
