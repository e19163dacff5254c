package admin_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

var _ admin.API = (*dynamolite.DB)(nil)

const table = testbed.Table

// A hooked is an engine whose items' operations pass through hooks.
type hooked struct {
	*faults.API
	*tables
}

// tables are the operations of an engine on tables that faults does not know.
type tables struct {
	db    *dynamolite.DB
	stack string // that owns every table, "" if none

	withoutTags bool // as DynamoDB Local is
}

func (t *tables) UpdateTable(ctx context.Context, in *dynamodb.UpdateTableInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error) {
	return t.db.UpdateTable(ctx, in, o...)
}

func (t *tables) DeleteTable(ctx context.Context, in *dynamodb.DeleteTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DeleteTableOutput, error) {
	return t.db.DeleteTable(ctx, in, o...)
}

func (t *tables) ListTagsOfResource(ctx context.Context, in *dynamodb.ListTagsOfResourceInput, o ...func(*dynamodb.Options)) (*dynamodb.ListTagsOfResourceOutput, error) {
	if t.withoutTags {
		return nil, &smithy.GenericAPIError{Code: "UnknownOperationException", Message: "tagging is not supported"}
	}
	out, err := t.db.ListTagsOfResource(ctx, in, o...)
	if err == nil && t.stack != "" {
		out.Tags = append(out.Tags, types.Tag{Key: aws.String("aws:cloudformation:stack-name"), Value: &t.stack})
	}
	return out, err
}

func (t *tables) TagResource(ctx context.Context, in *dynamodb.TagResourceInput, o ...func(*dynamodb.Options)) (*dynamodb.TagResourceOutput, error) {
	return t.db.TagResource(ctx, in, o...)
}

func newTable(t *testing.T, api admin.API) *admin.Table {
	t.Helper()
	a, err := admin.New(admin.Options{API: api, Table: table, Now: fixture.Now, Poll: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func denied(operation string) error {
	return &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not authorized to perform: dynamodb:" + operation}
}

func TestATableIsDescribed(t *testing.T) {
	t.Parallel()
	db := fixture.NewTableOf(t, dynamo.TableOptions{Now: fixture.Now, Stream: true})
	d, err := newTable(t, db).Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type summary struct {
		Name, Status, Billing, Expiry, By, View, Recovery, Stack, Misfit string
		Key                                                              []string
		Version                                                          dynamo.Version
	}
	want := summary{
		table, "ACTIVE", "PAY_PER_REQUEST", "ENABLED", "ttl", "NEW_AND_OLD_IMAGES", admin.Unsupported, "", "",
		[]string{"PK", "SK"},
		dynamo.Version{Schema: "0.10.0", ClientMin: "0.0.0", Lambda: dynamo.ClientVersion},
	}
	got := summary{d.Name, d.Status, d.Billing, d.Expiry, d.ExpiryBy, d.StreamView, d.Recovery.Status, d.Stack, d.Misfit, d.Key, *d.Version}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if d.StreamARN == "" || len(d.Indexes) != 4 || !errors.Is(d.Unknown["DescribeContinuousBackups"], admin.ErrNoBackups) {
		t.Errorf("got %+v", d)
	}
	for _, ix := range d.Indexes {
		projection := "KEYS_ONLY"
		if ix.Name == schema.GSI1 {
			projection = "ALL"
		}
		if !slices.Equal(ix.Key, []string{ix.Name + "PK", ix.Name + "SK"}) || ix.Projection != projection || ix.Status != "ACTIVE" {
			t.Errorf("index %+v", ix)
		}
	}
}

// DynamoDB lists the indexes of a table in any order.
func TestIndexesAreInOrder(t *testing.T) {
	t.Parallel()
	api, _ := newHooked(t, func(ctx context.Context, c *faults.Call, next faults.Next) error {
		err := next(ctx)
		if out, ok := c.Output.(*dynamodb.DescribeTableOutput); ok && err == nil {
			slices.Reverse(out.Table.GlobalSecondaryIndexes)
		}
		return err
	})
	d, err := newTable(t, api).Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(d.Indexes, func(a, b admin.Index) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("indexes %+v", d.Indexes)
	}
}

func TestAProtectedTableIsNotDeleted(t *testing.T) {
	t.Parallel()
	owned, db := newHooked(t, faults.Chain())
	owned.stack = "prod"
	err := newTable(t, owned).Delete(t.Context())
	fixture.WantErr(t, err, admin.ErrProtected)
	if err == nil || !strings.Contains(err.Error(), "the CloudFormation stack prod owns it") {
		t.Errorf("got %v", err)
	}
	if d, err := newTable(t, owned).Describe(t.Context()); err != nil || d.Stack != "prod" || len(d.Tags) != 0 {
		t.Errorf("described as %+v, %v", d, err)
	}
	if _, err := db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: aws.String(table), DeletionProtectionEnabled: aws.Bool(true)}); err != nil {
		t.Fatal(err)
	}
	err = newTable(t, db).Delete(t.Context())
	fixture.WantErr(t, err, admin.ErrProtected)
	if err == nil || !strings.Contains(err.Error(), "--no-deletion-protection-enabled") {
		t.Errorf("got %v", err)
	}
}

func TestAServerWithoutTagsHasNoStack(t *testing.T) {
	t.Parallel()
	local, _ := newHooked(t, faults.Chain())
	local.withoutTags = true
	a := newTable(t, local)
	if d, err := a.Describe(t.Context()); err != nil || d.Stack != "" || d.Unknown["ListTagsOfResource"] != nil {
		t.Errorf("described as %+v, %v", d, err)
	}
	if err := a.Delete(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDeleteWaitsUntilTheTableIsGone(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	a := newTable(t, db)
	if err := a.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := a.Describe(t.Context())
	fixture.WantErr(t, err, store.ErrNotFound)
	fixture.WantErr(t, a.Delete(t.Context()), store.ErrNotFound)
}

func TestEnableStreamLeavesAnotherViewAlone(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	a := newTable(t, db)
	arn, enabled, err := a.EnableStream(t.Context())
	if err != nil || !enabled || arn == "" {
		t.Errorf("%q, %v, %v", arn, enabled, err)
	}
	again, enabled, err := a.EnableStream(t.Context())
	if err != nil || enabled || again != arn {
		t.Errorf("again: %q, %v, %v, want %q", again, enabled, err, arn)
	}
	for _, spec := range []*types.StreamSpecification{
		{StreamEnabled: aws.Bool(false)},
		{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeKeysOnly},
	} {
		if _, err := db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: aws.String(table), StreamSpecification: spec}); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err = a.EnableStream(t.Context())
	fixture.WantErr(t, err, store.ErrExists)
	if d, err := a.Describe(t.Context()); err != nil || d.StreamView != "KEYS_ONLY" {
		t.Errorf("the stream shows %q, %v", d.StreamView, err)
	}
}

// TestCheckTriesTheStream: the trials of the stream say which of its actions is refused, and
// go on as far as they can.
func TestCheckTriesTheStream(t *testing.T) {
	t.Parallel()
	all := []string{"DescribeStream", "GetShardIterator", "GetRecords"}
	for _, c := range []struct {
		fails   string
		err     error
		warns   string
		untried []string
	}{
		{},
		{"DescribeStream", denied("DescribeStream"), "dynamodb:DescribeStream on the stream is refused", all[1:]},
		{"GetShardIterator", denied("GetShardIterator"), "dynamodb:GetShardIterator on the stream is refused", all[2:]},
		{"GetRecords", denied("GetRecords"), "dynamodb:GetRecords on the stream is refused", nil},
		{"GetRecords", &smithy.GenericAPIError{Code: "InternalServerError"}, "the trial of dynamodb:GetRecords on the stream failed", nil},
	} {
		db := fixture.NewTableOf(t, dynamo.TableOptions{Now: fixture.Now, Stream: true})
		a, err := admin.New(admin.Options{API: db, Table: table, Now: fixture.Now, Streams: &brokenStream{db, c.fails, c.err}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := a.Check(t.Context(), dynamo.DefaultNamespace)
		if err != nil || len(r.Problems) > 0 {
			t.Fatalf("%s: %+v, %v", c.fails, r, err)
		}
		var tried, untried []string
		for _, p := range r.Permissions {
			if p.Resource != "stream" {
				continue
			}
			tried = append(tried, strings.TrimPrefix(p.Action, "dynamodb:"))
			if p.Err != nil && tried[len(tried)-1] != c.fails {
				untried = append(untried, tried[len(tried)-1])
			}
		}
		if !slices.Equal(tried, all) || !slices.Equal(untried, c.untried) {
			t.Errorf("%s: %v in the report, %v not tried", c.fails, tried, untried)
		}
		warned := slices.ContainsFunc(r.Warnings, func(f admin.Finding) bool { return c.warns != "" && strings.Contains(f.What, c.warns) })
		if warned != (c.warns != "") || !warned && len(r.Warnings) > 0 {
			t.Errorf("%s: warnings %+v", c.fails, r.Warnings)
		}
	}
}

// A brokenStream fails one operation of an engine's streams.
type brokenStream struct {
	stream.API

	fails string
	err   error
}

func (b *brokenStream) failure(op string) error {
	if op == b.fails {
		return b.err
	}
	return nil
}

func (b *brokenStream) DescribeStream(ctx context.Context, in *dynamodbstreams.DescribeStreamInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	if err := b.failure("DescribeStream"); err != nil {
		return nil, err
	}
	return b.API.DescribeStream(ctx, in, o...)
}

func (b *brokenStream) GetShardIterator(ctx context.Context, in *dynamodbstreams.GetShardIteratorInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	if err := b.failure("GetShardIterator"); err != nil {
		return nil, err
	}
	return b.API.GetShardIterator(ctx, in, o...)
}

func (b *brokenStream) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	if err := b.failure("GetRecords"); err != nil {
		return nil, err
	}
	return b.API.GetRecords(ctx, in, o...)
}

// newHooked is an engine with a table whose requests pass through a hook.
func newHooked(t *testing.T, hook faults.Hook) (*hooked, *dynamolite.DB) {
	t.Helper()
	db := fixture.NewTableOf(t, dynamo.TableOptions{Now: fixture.Now, Stream: true})
	return &hooked{faults.Wrap(db, hook), &tables{db: db}}, db
}

func TestCheckWritesNothing(t *testing.T) {
	t.Parallel()
	seen := &faults.Recorder{}
	api, db := newHooked(t, seen.Record)
	items := scan(t, db)
	r, err := newTable(t, api).Check(t.Context(), dynamo.DefaultNamespace)
	if err != nil || len(r.Problems) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if diff := cmp.Diff(items, scan(t, db)); diff != "" {
		t.Errorf("items (-before +after):\n%s", diff)
	}
	for _, op := range []string{faults.PutItem, faults.UpdateItem, faults.TransactWriteItems, faults.BatchWriteItem, faults.Scan} {
		if seen.Count(op) == 0 {
			t.Errorf("%s was not tried", op)
		}
	}
}

func scan(t *testing.T, db *dynamolite.DB) (keys []string) {
	t.Helper()
	out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(table)})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range out.Items {
		keys = append(keys, schema.KeyOf(it).String())
	}
	slices.Sort(keys)
	return keys
}

func TestCheckNamesTheActionsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ op, action string }{
		{faults.PutItem, "dynamodb:PutItem"},
		{faults.UpdateItem, "dynamodb:UpdateItem"},
		{faults.BatchWriteItem, "dynamodb:BatchWriteItem"},
		{faults.TransactWriteItems, "dynamodb:DeleteItem"},
		{faults.BatchGetItem, "dynamodb:BatchGetItem"},
	} {
		api, _ := newHooked(t, faults.On(faults.Fail(denied(c.op)), c.op))
		r, err := newTable(t, api).Check(t.Context(), dynamo.DefaultNamespace)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Problems) == 0 || !strings.Contains(r.Problems[0].What, c.action+" on the table is refused") {
			t.Errorf("%s: problems %+v", c.op, r.Problems)
		}
	}
	api, _ := newHooked(t, faults.On(faults.Fail(denied("Scan")), faults.Scan, faults.DescribeTimeToLive))
	r, err := newTable(t, api).Check(t.Context(), dynamo.DefaultNamespace)
	if err != nil || len(r.Problems) > 0 || len(r.Warnings) != 2 {
		t.Errorf("without an administrator's permissions: %+v, %+v, %v", r.Problems, r.Warnings, err)
	}
}

func TestCheckFindsWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	db := fixture.NewTableOf(t, dynamo.TableOptions{Now: fixture.Now, KeepExpired: true, GSI2Projection: dynamo.ProjectAll})
	fixture.Put(t, db, schema.EncodeVersion(schema.Version{Schema: "0.9.0", ClientMin: "0.0.0", Lambda: "0.16.0"}))
	r, err := newTable(t, db).Check(t.Context(), "absent")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"its schema is 0.9.0", `namespace "absent" does not exist`} {
		if !slices.ContainsFunc(r.Problems, func(f admin.Finding) bool { return strings.Contains(f.What, want) }) {
			t.Errorf("no problem says %q: %+v", want, r.Problems)
		}
	}
	for _, want := range []string{"aggregator has version 0.16.0", "time to live is DISABLED", "has no stream", "GSI2 projects ALL"} {
		if !slices.ContainsFunc(r.Warnings, func(f admin.Finding) bool { return strings.Contains(f.What, want) }) {
			t.Errorf("no warning says %q: %+v", want, r.Warnings)
		}
	}
}

// The aggregator of the Python package counts usage of a resource of which this library keeps pages.
func TestCheckFindsASecondAggregator(t *testing.T) {
	t.Parallel()
	tap := &faults.Slot{}
	api, db := newHooked(t, tap.Apply)
	s := fixture.OpenStore(t, db)
	_, ns := s.Namespace()
	warns := func() bool {
		r, err := newTable(t, api).Check(t.Context(), dynamo.DefaultNamespace)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(r.Warnings, func(f admin.Finding) bool { return strings.Contains(f.What, "counts twice") })
	}
	text := diary.Append("", diary.Entry{Hour: diary.HourOf(fixture.Start.UnixMilli()), Amounts: []store.Amount{{Milli: 1}}})
	if err := s.Usage().Save(t.Context(), usage.Diary{Bucket: store.Bucket{Entity: "user", Resource: "gpt-4"}, Text: text}); err != nil {
		t.Fatal(err)
	}
	if warns() {
		t.Error("a warning without a second aggregator")
	}
	day := schema.EncodeDay(ns, &schema.Usage{Entity: "user", Resource: "gpt-4", Window: "daily", Start: fixture.Start.Truncate(24 * time.Hour)}, 0, time.Time{})
	delete(day, schema.DayRead) // as the package's own aggregator writes it
	fixture.Put(t, db, day)
	if !warns() {
		t.Error("no warning")
	}
	tap.Set(faults.On(faults.Fail(denied("Query")), faults.Query))
	if warns() {
		t.Error("a warning without permission to look")
	}
}
