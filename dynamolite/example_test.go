package dynamolite_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "dynamolite")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	db, err := dynamolite.Open(dynamolite.Options{Dir: dir})
	if err != nil {
		panic(err)
	}
	if _, err := db.CreateTable(ctx, otherInput()); err != nil {
		panic(err)
	}
	counted := &dynamodb.UpdateItemInput{
		TableName: aws.String(otherName), Key: attrs{"id": str("visits")},
		UpdateExpression: aws.String("ADD n :one"), ExpressionAttributeValues: attrs{":one": num("1")}, ReturnValues: types.ReturnValueAllNew,
	}
	if _, err := db.UpdateItem(ctx, counted); err != nil {
		panic(err)
	}
	if err := db.Close(); err != nil {
		panic(err)
	}

	db, err = dynamolite.Open(dynamolite.Options{Dir: dir})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	out, err := db.UpdateItem(ctx, counted)
	if err != nil {
		panic(err)
	}
	n, _ := out.Attributes["n"].(*types.AttributeValueMemberN)
	fmt.Println(n.Value)
	// Output: 2
}

func ExampleLimits() {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	db := dynamolite.New(dynamolite.Options{
		Limits: dynamolite.Limits{PartitionWriteUnits: 5}, Now: func() time.Time { return noon },
	})
	ctx := context.Background()
	if _, err := db.CreateTable(ctx, otherInput()); err != nil {
		panic(err)
	}
	for i := range 6 {
		_, err := db.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(otherName), Item: attrs{"id": str("hot")}})
		if e, throttled := errors.AsType[*types.ThrottlingException](err); throttled {
			fmt.Println("write", i+1, *e.ThrottlingReasons[0].Reason)
		}
	}
	// Output: write 6 TableWriteKeyRangeThroughputExceeded
}

// Any DynamoDB client can connect.
func ExampleHandler_Serve() {
	ctx, stop := context.WithCancel(context.Background())
	db := dynamolite.New(dynamolite.Options{})
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	stopped := make(chan error)
	go func() { stopped <- dynamolite.NewHandler(db, dynamolite.HandlerOptions{}).Serve(ctx, listener) }()

	client := dynamodb.New(dynamodb.Options{
		Region: "local", BaseEndpoint: aws.String("http://" + listener.Addr().String()),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "any", SecretAccessKey: "any"}, nil
		}),
	})
	if _, err := client.CreateTable(ctx, otherInput()); err != nil {
		panic(err)
	}
	out, err := client.ListTables(ctx, &dynamodb.ListTablesInput{})
	if err != nil {
		panic(err)
	}
	fmt.Println(out.TableNames)
	stop()
	if err := <-stopped; err != nil {
		panic(err)
	}
	// Output: [other]
}
