package stack_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/template"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// kept is an account with a table and an archive that a deleted stack has kept, and a rollout
// that adopts both.
func (w *world) kept() stack.Rollout {
	w.Helper()
	w.deploy(w.rollout())
	left, err := w.Delete(w.Context(), stack.Deletion{Name: "limits"})
	if err != nil {
		w.Fatal(err)
	}
	r := w.rollout()
	r.Adopt = &stack.Adoption{}
	for _, of := range left.Kept {
		if of.LogicalID == stack.ArchiveID {
			r.Adopt.Archive = of.PhysicalID
		}
	}
	w.cloud.Asked()
	return r
}

// archive is the archive of the stack.
func (w *world) archive() string {
	w.Helper()
	resources, err := w.Resources(w.Context(), "limits")
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range resources {
		if r.LogicalID == stack.ArchiveID {
			return r.PhysicalID
		}
	}
	return ""
}

func TestWhatADeletionKeptGetsAStackAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.kept()
		out := w.deploy(r)
		if out.Stack.Outputs["AggregatorFunctionName"] == "" || w.archive() != r.Adopt.Archive || w.lambda() == "" {
			w.Errorf("stack %+v, archive %q and not %q", out.Stack, w.archive(), r.Adopt.Archive)
		}
		for _, c := range out.Changes {
			if c.LosesData() {
				w.Errorf("change %+v", c)
			}
		}
		if again := w.deploy(r); len(again.Changes) > 0 {
			w.Errorf("the second deployment changes %+v", again.Changes)
		}
	})
}

// CloudFormation imports only into a template that has the imported resources alone, each
// with a policy of deletion and its own name, and no outputs.
func TestAnImportHasNothingButWhatIsImported(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.kept()
		r.Background = true
		w.deploy(r)
		sent, err := w.cloud.GetTemplate(w.Context(), &cloudformation.GetTemplateInput{StackName: aws.String("limits")})
		if err != nil {
			w.Fatal(err)
		}
		parsed, err := template.Parse(*sent.TemplateBody)
		if err != nil {
			w.Fatal(err)
		}
		of := template.Scope{Template: parsed, Name: "limits", Values: r.Parameters}
		ids := map[string]any{}
		for _, declared := range of.Resources {
			if !declared.Retained() || !of.Holds(declared.Condition) {
				w.Errorf("resource %+v", declared)
			}
			properties, _ := of.Eval(declared.Properties).(map[string]any)
			ids[declared.ID] = properties["TableName"]
		}
		if diff := cmp.Diff(map[string]any{stack.TableID: "limits", stack.ArchiveID: nil}, ids); diff != "" || len(of.Section("Outputs")) > 0 || of.Err() != nil {
			w.Errorf("outputs %v, error %v, resources (-want +got):\n%s", of.Section("Outputs"), of.Err(), diff)
		}
	})
}

// A program that is killed can no longer send anything. Whatever it did before, the same
// deployment completes it, and so does one without the adoption once the import has begun.
func TestAnAdoptionThatWasKilledIsResumed(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.kept()
		w.deploy(r)
		for at, requests := 0, len(w.cloud.Asked()); at < requests; at += 2 {
			w := w.fresh()
			r := w.kept()
			n := 0
			w.cloud.Fault(func(string) cfntest.Fault {
				if n++; n > at {
					return cfntest.Fault{Before: errLost}
				}
				return cfntest.Fault{}
			})
			if _, err := w.Deploy(w.Context(), r); err == nil {
				w.Fatalf("killed after request %d: no error", at)
			}
			w.cloud.Fault(func(string) cfntest.Fault { return cfntest.Fault{} })
			if _, err := w.Follow(w.Context(), "limits", nil); err != nil && !errors.Is(err, store.ErrNotFound) {
				w.Fatalf("killed after request %d: %v", at, err)
			}
			if !slices.Contains([]string{"", "REVIEW_IN_PROGRESS"}, w.status()) && at%4 == 0 {
				r.Adopt = nil
			}
			if out := w.deploy(r); out.Stack.Outputs["AggregatorFunctionName"] == "" {
				w.Fatalf("killed after request %d: stack %+v", at, out.Stack)
			}
		}
	})
}

func TestACallerThatDoesNotWaitForAnImportLearnsWhatRemains(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.kept()
		r.Background = true
		out := w.deploy(r)
		if out.Stack.Status != "IMPORT_IN_PROGRESS" || len(out.Remaining) == 0 || out.Remaining[0] != "add the other resources" {
			w.Errorf("status %s, remaining %q", out.Stack.Status, out.Remaining)
		}
		if _, err := w.Follow(w.Context(), "limits", nil); err != nil {
			w.Fatal(err)
		}
		r.Background = false
		if out := w.deploy(r); out.Stack.Status != "UPDATE_COMPLETE" {
			w.Errorf("status %s", out.Stack.Status)
		}
	})
}

// CloudFormation would import each of these tables, and believe the template from then on.
func TestATableThatIsNotAsDeclaredIsNotAdopted(t *testing.T) {
	inWorld(t, func(w *world) {
		for name, c := range map[string]struct {
			change     func(*dynamodb.CreateTableInput)
			parameters []string
			says       string
		}{
			"as declared": {func(*dynamodb.CreateTableInput) {}, nil, ""},
			"no stream":   {func(in *dynamodb.CreateTableInput) { in.StreamSpecification = nil }, nil, "the view of the stream is none, and not NEW_AND_OLD_IMAGES"},
			"keys only": {func(in *dynamodb.CreateTableInput) {
				in.StreamSpecification.StreamViewType = types.StreamViewTypeKeysOnly
			}, nil, "the view of the stream is KEYS_ONLY, and not"},
			"no index": {func(in *dynamodb.CreateTableInput) {
				in.GlobalSecondaryIndexes, in.AttributeDefinitions = in.GlobalSecondaryIndexes[:3], in.AttributeDefinitions[:8]
			}, nil, "GSI4 is none, and not a global index of GSI4PK and GSI4SK with KEYS_ONLY"},
			"another projection": {func(*dynamodb.CreateTableInput) {}, []string{"GSI2Projection=ALL"}, "GSI2 is a global index of GSI2PK and GSI2SK with KEYS_ONLY, and not"},
			"no local index":     {func(*dynamodb.CreateTableInput) {}, []string{"LocalIndexes=true"}, "LSI1 is none, and not a local index of PK and LSI1SK with ALL"},
			"another key": {func(in *dynamodb.CreateTableInput) {
				in.AttributeDefinitions[1].AttributeType = types.ScalarAttributeTypeN
			}, nil, "the type of SK is N, and not S"},
			"provisioned": {func(in *dynamodb.CreateTableInput) {
				in.BillingMode = types.BillingModeProvisioned
				units := &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(1), WriteCapacityUnits: aws.Int64(1)}
				in.ProvisionedThroughput = units
				for i := range in.GlobalSecondaryIndexes {
					in.GlobalSecondaryIndexes[i].ProvisionedThroughput = units
				}
			}, nil, "billing is PROVISIONED, and not PAY_PER_REQUEST"},
			"protected": {func(in *dynamodb.CreateTableInput) { in.DeletionProtectionEnabled = aws.Bool(true) }, nil, "deletion protection is on, and not off"},
		} {
			w := w.fresh()
			in := plainTable()
			c.change(in)
			if _, err := w.engine.CreateTable(w.Context(), in); err != nil {
				w.Fatalf("%s: %v", name, err)
			}
			r := w.rollout(c.parameters...)
			r.Adopt = &stack.Adoption{}
			_, err := w.Deploy(w.Context(), r)
			misfit := (*stack.MisfitError)(nil)
			switch {
			case c.says == "" && err == nil:
			case c.says == "" || !errors.As(err, &misfit) || !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), c.says):
				w.Errorf("%s: error %v", name, err)
			case w.status() != "":
				w.Errorf("%s: a stack was made, it is %s", name, w.status())
			}
		}
	})
}

// plainTable is the table of the small template.
func plainTable() *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName: aws.String("limits"), BillingMode: types.BillingModePayPerRequest,
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	}
	key := func(prefix string) (k []types.KeySchemaElement) {
		for i, name := range []string{prefix + "PK", prefix + "SK"} {
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeTypeS})
			k = append(k, types.KeySchemaElement{AttributeName: &name, KeyType: []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i]})
		}
		return k
	}
	in.KeySchema = key("")
	for name, projects := range map[string]types.ProjectionType{"GSI1": types.ProjectionTypeAll, "GSI2": types.ProjectionTypeKeysOnly, "GSI3": types.ProjectionTypeKeysOnly, "GSI4": types.ProjectionTypeKeysOnly} {
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{IndexName: &name, Projection: &types.Projection{ProjectionType: projects}})
	}
	slices.SortFunc(in.GlobalSecondaryIndexes, func(a, b types.GlobalSecondaryIndex) int { return strings.Compare(*a.IndexName, *b.IndexName) })
	for i := range in.GlobalSecondaryIndexes {
		in.GlobalSecondaryIndexes[i].KeySchema = key(*in.GlobalSecondaryIndexes[i].IndexName)
	}
	return in
}

func TestWhatCannotBeAdoptedIsSaid(t *testing.T) {
	inWorld(t, func(w *world) {
		nothing := w.rollout()
		nothing.Adopt = &stack.Adoption{}
		if _, err := w.Deploy(w.Context(), nothing); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "nothing to adopt") {
			w.Errorf("no table: %v", err)
		}
		r := w.kept()
		elsewhere := r
		elsewhere.Adopt = &stack.Adoption{Archive: "no-such-bucket"}
		if _, err := w.Deploy(w.Context(), elsewhere); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "no-such-bucket") {
			w.Errorf("no archive: %v", err)
		}
		w.deploy(r)
		if _, err := w.Deploy(w.Context(), elsewhere); !errors.Is(err, store.ErrInvalid) {
			w.Errorf("an archive that the stack does not have: %v", err)
		}
		older := w.fresh()
		back := older.kept()
		if _, err := dynamo.RaiseVersions(w.Context(), dynamo.Options{API: older.engine, Table: "limits"}, dynamo.Versions{Lambda: "99.0.0"}); err != nil {
			w.Fatal(err)
		}
		if _, err := older.Deploy(w.Context(), back); !errors.Is(err, store.ErrIncompatible) {
			w.Errorf("a newer aggregator: %v", err)
		}
	})
}
