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
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
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
		db := testbed.NewEngine(t, dynamolite.Options{})
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
		db := testbed.NewEngine(t, dynamolite.Options{})
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
	checkExpiry(t, testbed.NewEngine(t, dynamolite.Options{}))
}

// If the permission for expiry is missing, the error says so.
func TestExpiryThatIsRefused(t *testing.T) {
	t.Parallel()
	denied := &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not authorized to perform this operation"}
	api := faults.Wrap(fixture.NewTable(t), faults.On(faults.Fail(denied), faults.UpdateTimeToLive, faults.DescribeTimeToLive))
	err := dynamo.CreateTable(t.Context(), api, dynamo.TableOptions{Name: table})
	fixture.WantErr(t, err, store.ErrAccessDenied)
}

// appears is a hook of a table that is absent, then CREATING, then ACTIVE with an index
// still CREATING, then ready. With never, the table stays CREATING. It counts the polls.
func appears(polls *int, never bool) faults.Hook {
	return faults.On(faults.After(func(c *faults.Call, err error) error {
		if *polls++; err != nil {
			return err
		}
		described := c.Output.(*dynamodb.DescribeTableOutput).Table
		switch {
		case *polls == 1:
			return &types.ResourceNotFoundException{}
		case *polls == 2 || never:
			described.TableStatus = types.TableStatusCreating
		case *polls == 3:
			described.GlobalSecondaryIndexes[1].IndexStatus = types.IndexStatusCreating
		}
		return nil
	}), faults.DescribeTable)
}

func TestCreateTableWaitsUntilItIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		polls := 0
		slow := faults.Wrap(testbed.NewEngine(t, dynamolite.Options{}), appears(&polls, false))
		if err := dynamo.CreateTable(t.Context(), slow, dynamo.TableOptions{Name: table}); err != nil {
			t.Fatal(err)
		}
		if polls != 4 {
			t.Errorf("%d polls, want 4", polls)
		}
	})
}

func TestCreateTableWaitsNoLongerThanItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		err := dynamo.CreateTable(ctx, faults.Wrap(testbed.NewEngine(t, dynamolite.Options{}), appears(new(int), true)), dynamo.TableOptions{Name: table})
		fixture.WantErr(t, err, context.DeadlineExceeded)
		fixture.WantErr(t, err, store.ErrUnavailable)
		if waited := time.Since(begun); waited != time.Minute {
			t.Errorf("waited %v", waited)
		}
	})
}
