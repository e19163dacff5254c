//go:build aws

package account_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/conformance/account"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

// envZip is the path of the code of the functions, which make aws exports.
const envZip = "ZAEL_AWS_TESTS_ZIP"

// TestOnARealAccount deploys a stack with an account's own credentials, and needs make aws.
// Nobody has run it yet. It logs what the requests of the library consumed, and their price.
// What the functions, the stack's other resources and the deletion cost is not in it: some
// cents, while the stack exists for some minutes.
func TestOnARealAccount(t *testing.T) {
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM) // the stack is deleted all the same
	defer stop()
	wanted := os.Getenv(account.EnvAccount)
	if err := account.Check(wanted, wanted); err != nil { // before any request
		t.Fatal(err)
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		t.Fatal(err)
	}
	identity, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		t.Fatal(err)
	}
	if err := account.Check(wanted, aws.ToString(identity.Account)); err != nil {
		t.Fatal(err)
	}
	db := dynamodb.NewFromConfig(cfg)
	meter := dynamo.NewMeter(db)
	m, err := stack.New(stack.Options{Clients: stack.Clients{
		CloudFormation: cloudformation.NewFromConfig(cfg), Buckets: s3.NewFromConfig(cfg), Functions: lambda.NewFromConfig(cfg),
		Tagging: resourcegroupstaggingapi.NewFromConfig(cfg), Database: db,
	}})
	if err != nil {
		t.Fatal(err)
	}
	first, code := described(t)
	r := &run{manager: m, code: code, api: meter, db: db, functions: lambda.NewFromConfig(cfg), options: first}
	spec, err := r.spec()
	if err != nil {
		t.Fatal(err)
	}
	suite := &account.Suite{Manager: m, Logf: t.Logf, Rollout: stack.Rollout{Spec: spec, Code: code}, Steps: []account.Step{
		{Name: "the function counts what the library acquires", Run: r.counts},
		{Name: "a change of memory and timeout keeps the table", Run: r.changes},
	}}
	if err := suite.Run(ctx); err != nil {
		t.Error(err)
	}
	sum := meter.Totals().Sum()
	prices, err := estimate.BuiltIn("us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the library's requests: %d, %.1f read units, %.1f write units, $%.6f at the on-demand prices of us-east-1",
		sum.Requests, sum.RCU, sum.WCU, (sum.RCU*prices.ReadUnits.Dollars+sum.WCU*prices.WriteUnits.Dollars)/1e6)
}

// described are the options of a stack of its own, and the code that make aws exported.
func described(t *testing.T) (deploy.Options, *stack.Code) {
	t.Helper()
	zip, err := os.ReadFile(os.Getenv(envZip))
	if err != nil {
		t.Fatalf("read $%s: %v; run make aws", envZip, err)
	}
	of, err := deploy.ReadArtefact(zip)
	if err != nil {
		t.Fatal(err)
	}
	o := deploy.Defaults()
	o.Name, o.Architecture, o.CodeKey, o.DeleteData = account.NewName(), of.Architecture(), of.Key(), true
	return o, &stack.Code{Key: of.Key(), Zip: of.Zip()}
}

// A run has what the steps share.
type run struct {
	manager   *stack.Manager
	code      *stack.Code
	api       dynamo.API
	db        *dynamodb.Client
	functions *lambda.Client
	options   deploy.Options
}

// spec is the stack as the options describe it.
func (r *run) spec() (stack.Spec, error) {
	of, err := deploy.New(r.options)
	if err != nil {
		return stack.Spec{}, err
	}
	s := stack.Spec{Name: of.Name(), Template: string(of.Template()), Parameters: map[string]string{}, Tags: map[string]string{}}
	for _, p := range of.Parameters() {
		s.Parameters[p.Key] = p.Value
	}
	for _, tag := range of.Tags() {
		s.Tags[tag.Key] = tag.Value
	}
	return s, nil
}

// counts acquires, and waits until the function has counted all of it.
func (r *run) counts(ctx context.Context, _ *stack.Stack) error {
	const takes, patience, poll = 20, 5 * time.Minute, 2 * time.Second
	store, err := dynamo.Open(ctx, dynamo.Options{API: r.api, Table: r.options.Name})
	if err != nil {
		return err
	}
	l, err := limiter.New(store, limiter.Options{InFlight: -1})
	if err != nil {
		return err
	}
	defer l.Close()
	for range takes {
		lease, err := l.Acquire(ctx, limiter.Request{
			Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rpd": 1}, Fallback: []limiter.Limit{limiter.PerDay("rpd", 1000)},
		})
		if err != nil {
			return err
		}
		if err := lease.Commit(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		sum, err := store.Usage().Sum(ctx, usage.Query{Entity: "user", Window: usage.Daily})
		if err != nil || sum.Events == takes {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d acquires are counted: %w", sum.Events, takes, ctx.Err())
		case <-time.After(poll):
		}
	}
}

// changes deploys another memory and timeout, and compares the table with what it was.
func (r *run) changes(ctx context.Context, s *stack.Stack) error {
	before, err := r.db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(r.options.Name)})
	if err != nil {
		return err
	}
	r.options.MemoryMB, r.options.TimeoutSeconds = 512, 45
	spec, err := r.spec()
	if err != nil {
		return err
	}
	if _, err := r.manager.Deploy(ctx, stack.Rollout{Spec: spec, Code: r.code}); err != nil {
		return err
	}
	after, err := r.db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(r.options.Name)})
	if err != nil {
		return err
	}
	f, err := r.functions.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: aws.String(s.Outputs[stack.OutputAggregator])})
	if err != nil {
		return err
	}
	if aws.ToString(before.Table.TableId) != aws.ToString(after.Table.TableId) || aws.ToInt32(f.MemorySize) != 512 || aws.ToInt32(f.Timeout) != 45 {
		return fmt.Errorf("the table was %s and is %s, the function has %d MB and %d s",
			aws.ToString(before.Table.TableId), aws.ToString(after.Table.TableId), aws.ToInt32(f.MemorySize), aws.ToInt32(f.Timeout))
	}
	return nil
}
