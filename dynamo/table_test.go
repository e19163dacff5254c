package dynamo_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

func projections(t *testing.T, db *dynamolite.DB) map[string]types.ProjectionType {
	t.Helper()
	out, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table)})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]types.ProjectionType{}
	for _, ix := range out.Table.GlobalSecondaryIndexes {
		got[*ix.IndexName] = ix.Projection.ProjectionType
	}
	if n := len(out.Table.LocalSecondaryIndexes); n != 0 {
		t.Errorf("%d local indexes, want none", n)
	}
	return got
}

func TestCreateTable(t *testing.T) {
	t.Parallel()
	for gsi2, want := range map[dynamo.Projection]types.ProjectionType{
		"":                 types.ProjectionTypeKeysOnly,
		dynamo.ProjectKeys: types.ProjectionTypeKeysOnly,
		dynamo.ProjectAll:  types.ProjectionTypeAll,
	} {
		db := fixture.NewEngine(t)
		o := dynamo.TableOptions{Name: table, GSI2Projection: gsi2, Now: now}
		if err := dynamo.CreateTable(t.Context(), db, o); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]types.ProjectionType{
			"GSI1": types.ProjectionTypeAll, "GSI2": want, "GSI3": types.ProjectionTypeKeysOnly, "GSI4": types.ProjectionTypeKeysOnly,
		}, projections(t, db)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", gsi2, diff)
		}
		_, before := fixture.OpenStore(t, db).Namespace()
		// Again, as after an interruption: the existing table is adopted and kept.
		if err := dynamo.CreateTable(t.Context(), db, o); err != nil {
			t.Errorf("%q again: %v", gsi2, err)
		}
		if _, after := fixture.OpenStore(t, db).Namespace(); after != before {
			t.Errorf("%q again: namespace %q became %q", gsi2, before, after)
		}
	}
}

func TestCreateTableKeepsAnOlderVersionRecord(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	fixture.Put(t, db, schema.EncodeVersion(schema.Version{Schema: "0.10.0", ClientMin: "0.15.0", Updated: start}))
	if err := dynamo.CreateTable(t.Context(), db, dynamo.TableOptions{Name: table}); err != nil {
		t.Fatal(err)
	}
	if v, _ := fixture.OpenStore(t, db).Version(); v.ClientMin != "0.15.0" {
		t.Errorf("the record became %+v", v)
	}
}

func TestCreateTableRefusesAnotherShape(t *testing.T) {
	t.Parallel()
	pair := func(pk, sk string) []types.KeySchemaElement {
		return []types.KeySchemaElement{
			{AttributeName: &pk, KeyType: types.KeyTypeHash}, {AttributeName: &sk, KeyType: types.KeyTypeRange},
		}
	}
	attrs := func(names ...string) (all []types.AttributeDefinition) {
		for _, n := range names {
			all = append(all, types.AttributeDefinition{AttributeName: &n, AttributeType: types.ScalarAttributeTypeS})
		}
		return all
	}
	for name, in := range map[string]*dynamodb.CreateTableInput{
		"another key": {KeySchema: pair("pk", "sk"), AttributeDefinitions: attrs("pk", "sk")},
		"no indexes":  {KeySchema: pair("PK", "SK"), AttributeDefinitions: attrs("PK", "SK")},
	} {
		db := fixture.NewEngine(t)
		in.TableName, in.BillingMode = aws.String(table), types.BillingModePayPerRequest
		if _, err := db.CreateTable(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fixture.WantErr(t, dynamo.CreateTable(t.Context(), db, dynamo.TableOptions{Name: table}), store.ErrExists)
		})
	}
	t.Run("another projection", func(t *testing.T) {
		t.Parallel()
		fixture.WantErr(t, dynamo.CreateTable(t.Context(), fixture.NewTable(t), dynamo.TableOptions{Name: table, GSI2Projection: dynamo.ProjectAll}), store.ErrExists)
	})
	fixture.WantErr(t, dynamo.CreateTable(t.Context(), fixture.NewTable(t), dynamo.TableOptions{Name: table, GSI2Projection: "some"}), store.ErrInvalid)
}

// expiry returns whether a table's items expire, and by which attribute.
func expiry(t *testing.T, api dynamo.API, name string) string {
	t.Helper()
	out, err := api.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		t.Fatal(err)
	}
	return string(out.TimeToLiveDescription.TimeToLiveStatus) + " " + aws.ToString(out.TimeToLiveDescription.AttributeName)
}

// A new table deletes expired items, unless the caller asks to keep them. An existing
// table may already expire items by the same attribute, but not by another one.
func checkExpiry(t *testing.T, api dynamo.API) {
	t.Helper()
	const on, off = "ENABLED ttl", "DISABLED "
	create := func(name string, keep bool) error {
		return dynamo.CreateTable(t.Context(), api, dynamo.TableOptions{Name: name, KeepExpired: keep})
	}
	for _, c := range []struct {
		name string
		keep bool
		want string
	}{
		{"expiring", false, on},
		{"expiring", false, on}, // again
		{"expiring", true, on},  // and expiry stays on
		{"kept", true, off},
		{"kept", false, on}, // as if the first creation had been interrupted
	} {
		if err := create(c.name, c.keep); err != nil {
			t.Fatal(err)
		}
		if got := expiry(t, api, c.name); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	other := "otherwise"
	if err := create(other, true); err != nil {
		t.Fatal(err)
	}
	if _, err := api.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: &other, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("until"), Enabled: aws.Bool(true)},
	}); err != nil {
		t.Fatal(err)
	}
	err := create(other, false)
	fixture.WantErr(t, err, store.ErrExists)
	if err == nil || !strings.Contains(err.Error(), "until") {
		t.Errorf("it does not say what items expire by: %v", err)
	}
	if err := create(other, true); err != nil {
		t.Error(err)
	}
}

func TestTablesLetItemsExpire(t *testing.T) {
	t.Parallel()
	checkExpiry(t, fixture.NewEngine(t))
}

// If the permission for expiry is missing, the error says so.
func TestExpiryThatIsRefused(t *testing.T) {
	t.Parallel()
	err := dynamo.CreateTable(t.Context(), &noExpiry{API: fixture.NewTable(t)}, dynamo.TableOptions{Name: table})
	fixture.WantErr(t, err, store.ErrAccessDenied)
}

type noExpiry struct{ dynamo.API }

func (*noExpiry) UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error) {
	return nil, &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not authorized to perform dynamodb:UpdateTimeToLive"}
}

func (*noExpiry) DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	return nil, &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not authorized to perform dynamodb:DescribeTimeToLive"}
}

// A slow table is absent, then CREATING, then ACTIVE with an index still CREATING, then
// ready. With never set, the table stays CREATING.
type slowTable struct {
	dynamo.API
	polls int
	never bool
}

func (s *slowTable) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	s.polls++
	out, err := s.API.DescribeTable(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	switch {
	case s.polls == 1:
		return nil, &types.ResourceNotFoundException{}
	case s.polls == 2 || s.never:
		out.Table.TableStatus = types.TableStatusCreating
	case s.polls == 3:
		out.Table.GlobalSecondaryIndexes[1].IndexStatus = types.IndexStatusCreating
	}
	return out, nil
}

func TestCreateTableWaitsUntilItIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTable{API: fixture.NewEngine(t)}
		if err := dynamo.CreateTable(t.Context(), slow, dynamo.TableOptions{Name: table}); err != nil {
			t.Fatal(err)
		}
		if slow.polls != 4 {
			t.Errorf("%d polls, want 4", slow.polls)
		}
	})
}

func TestCreateTableWaitsNoLongerThanItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		err := dynamo.CreateTable(ctx, &slowTable{API: fixture.NewEngine(t), never: true}, dynamo.TableOptions{Name: table})
		fixture.WantErr(t, err, context.DeadlineExceeded)
		fixture.WantErr(t, err, store.ErrUnavailable)
		if waited := time.Since(begun); waited != time.Minute {
			t.Errorf("waited %v", waited)
		}
	})
}
