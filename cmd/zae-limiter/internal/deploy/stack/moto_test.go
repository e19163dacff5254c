//go:build conformance

package stack_test

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/s3test"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/store"
)

// The SDK's own clients, over HTTP, against moto: preview, plan, execution, kept parameters and tags,
// the upload of code, listing and deletion. Moto does not judge rollback, replacement or
// progress, and a stack that one of its change sets made has no outputs.
func TestAStackOnMoto(t *testing.T) {
	moto := peers.Moto(t)
	cfg := aws.Config{
		Region: peers.Region, BaseEndpoint: aws.String(moto),
		Credentials: credentials.NewStaticCredentialsProvider(peers.AccessKey, peers.SecretKey, ""),
	}
	m, err := stack.New(stack.Options{Poll: 10 * time.Millisecond, Clients: stack.Clients{
		CloudFormation: cloudformation.NewFromConfig(cfg), Buckets: s3test.OnMoto(t, moto), Functions: lambda.NewFromConfig(cfg),
		Tagging: resourcegroupstaggingapi.NewFromConfig(cfg), Database: dynamodb.NewFromConfig(cfg),
	}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/moto.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var events []stack.Event
	r := stack.Rollout{
		Spec: stack.Spec{
			Name: "limits", Template: string(text), Parameters: map[string]string{"Note": "note"},
			Tags: map[string]string{stack.TagManagedBy: stack.ManagedBy, stack.TagName: "limits", "team": "core"},
		},
		Progress: func(e stack.Event) { events = append(events, e) },
	}
	preview, err := m.Preview(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Plan(t.Context(), r.Spec)
	if err != nil || !p.Creates || len(p.Changes) != 4 {
		t.Fatalf("plan %+v, error %v", p, err)
	}
	ids := func(p *stack.Plan) (ids []string) {
		for _, c := range p.Changes {
			ids = append(ids, c.LogicalID)
		}
		slices.Sort(ids)
		return ids
	}
	if diff := cmp.Diff(ids(p), ids(preview)); diff != "" {
		t.Errorf("moto evaluates the template differently (-moto +preview):\n%s", diff)
	}
	s, err := m.Execute(t.Context(), p, r.Progress)
	if err != nil || s.Status != "CREATE_COMPLETE" || s.Parameters["Note"] != "note" || len(events) == 0 {
		t.Fatalf("stack %+v after %d events, error %v", s, len(events), err)
	}

	r.Code, r.Parameters, r.Tags = code, nil, nil
	out, err := m.Deploy(t.Context(), r)
	if err != nil || out.Stack.Parameters["CodeKey"] != code.Key || out.Stack.Parameters["Note"] != "note" || out.Stack.Tags["team"] != "core" {
		t.Fatalf("stack %+v, error %v", out.Stack, err)
	}
	if _, err := s3test.OnMoto(t, moto).HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("limits-code"), Key: &code.Key}); err != nil {
		t.Errorf("the code: %v", err)
	}
	if l, err := m.List(t.Context()); err != nil || len(l.Stacks) != 1 {
		t.Errorf("listing %+v, error %v", l, err)
	}

	if _, err := m.Delete(t.Context(), stack.Deletion{Name: "limits"}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Find(t.Context(), "limits"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after the deletion: error %v", err)
	}
}
