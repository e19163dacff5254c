package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/store"
)

// stackTag is the tag by which CloudFormation marks what a stack owns.
const stackTag = "aws:cloudformation:stack-name"

// Values that no server gives.
const (
	// Unknown is the value of a field that the server did not tell. [Description.Unknown]
	// says why.
	Unknown = "UNKNOWN"
	// Unsupported is the status of [Recovery] on a server that has no backups, as DynamoDB Local
	// and the embedded engine.
	Unsupported = "UNSUPPORTED"
)

// A Description is what there is to know of a table.
type Description struct {
	Name, ARN, Status string
	Created           time.Time
	Key               []string // the attributes of the key
	Indexes           []Index  // in the order in which the server lists them
	// Items and Bytes are about six hours old: DynamoDB counts that often.
	Items, Bytes int64
	// Billing is PAY_PER_REQUEST or PROVISIONED. Read and Write are units a second,
	// provisioned or as the maximum on demand; 0 is no maximum.
	Billing     string
	Read, Write int64
	// Expiry is the status of the deletion of expired items: ENABLED, DISABLED and so on,
	// or [Unknown]. ExpiryBy is its attribute.
	Expiry, ExpiryBy string
	// StreamARN and StreamView are those of the table's stream, "" if it has none.
	StreamARN, StreamView string
	Recovery              Recovery
	// DeletionProtection reports that the server refuses to delete the table.
	DeletionProtection bool
	// Stack is the CloudFormation stack that owns the table, "" if none, or [Unknown].
	Stack string
	// Tags are the table's tags without those of CloudFormation; nil if unknown.
	Tags map[string]string
	// Version is the table's version record, nil if it has none.
	Version *dynamo.Version
	// Unknown are the operations that did not succeed, with their errors.
	Unknown map[string]error
	// Misfit says how the keys and indexes differ from those that this client needs, ""
	// if they do not.
	Misfit string
}

// An Index is an index of a table.
type Index struct {
	Name, Status string
	Key          []string
	Projection   string // KEYS_ONLY, INCLUDE or ALL
	Items, Bytes int64  // as old as those of the table
}

// Recovery is what point-in-time recovery of a table offers.
type Recovery struct {
	Status           string // ENABLED, DISABLED, [Unsupported] or [Unknown]
	Days             int32  // that can be restored
	Earliest, Latest time.Time
}

// Describe describes the table. It fails if there is no table, or if DescribeTable fails.
// Other operations that fail are in Unknown. GetItem reads the version record.
func (t *Table) Describe(ctx context.Context) (*Description, error) {
	op := "describe table " + t.o.Table
	described, err := t.describeTable(ctx, op)
	if err != nil {
		return nil, err
	}
	d := descriptionOf(described)
	t.describeRest(ctx, op, d)
	v, ok, err := dynamo.ReadVersion(ctx, dynamo.Options{API: t.api, Table: t.o.Table, Now: t.o.Now})
	switch {
	case err != nil:
		d.Unknown["GetItem"] = err
	case ok:
		d.Version = &v
	}
	return d, nil
}

func (t *Table) describeTable(ctx context.Context, op string) (*types.TableDescription, error) {
	out, err := conn.Call(ctx, t.conn, op, t.api.DescribeTable, &dynamodb.DescribeTableInput{TableName: &t.o.Table})
	if err != nil {
		return nil, err
	}
	return out.Table, nil
}

// descriptionOf is what DescribeTable tells.
func descriptionOf(t *types.TableDescription) *Description {
	d := &Description{
		Name: aws.ToString(t.TableName), ARN: aws.ToString(t.TableArn), Status: string(t.TableStatus), Created: aws.ToTime(t.CreationDateTime),
		Key: keyOf(t.KeySchema), Items: aws.ToInt64(t.ItemCount), Bytes: aws.ToInt64(t.TableSizeBytes),
		Billing: string(types.BillingModeProvisioned), DeletionProtection: aws.ToBool(t.DeletionProtectionEnabled),
		Unknown: map[string]error{}, Misfit: dynamo.Misfit(t),
	}
	if t.ProvisionedThroughput != nil {
		d.Read, d.Write = aws.ToInt64(t.ProvisionedThroughput.ReadCapacityUnits), aws.ToInt64(t.ProvisionedThroughput.WriteCapacityUnits)
	}
	if t.BillingModeSummary != nil && t.BillingModeSummary.BillingMode != "" {
		d.Billing = string(t.BillingModeSummary.BillingMode)
	}
	if most := t.OnDemandThroughput; most != nil && d.Billing == string(types.BillingModePayPerRequest) {
		d.Read, d.Write = max(0, aws.ToInt64(most.MaxReadRequestUnits)), max(0, aws.ToInt64(most.MaxWriteRequestUnits))
	}
	if s := t.StreamSpecification; s != nil && aws.ToBool(s.StreamEnabled) {
		d.StreamARN, d.StreamView = aws.ToString(t.LatestStreamArn), string(s.StreamViewType)
	}
	for i := range t.GlobalSecondaryIndexes {
		ix := &t.GlobalSecondaryIndexes[i]
		index := Index{
			Name: aws.ToString(ix.IndexName), Status: string(ix.IndexStatus), Key: keyOf(ix.KeySchema),
			Items: aws.ToInt64(ix.ItemCount), Bytes: aws.ToInt64(ix.IndexSizeBytes),
		}
		if ix.Projection != nil {
			index.Projection = string(ix.Projection.ProjectionType)
		}
		d.Indexes = append(d.Indexes, index)
	}
	// DynamoDB promises no order.
	slices.SortFunc(d.Indexes, func(a, b Index) int { return strings.Compare(a.Name, b.Name) })
	return d
}

func keyOf(elements []types.KeySchemaElement) (key []string) {
	for _, e := range elements {
		key = append(key, aws.ToString(e.AttributeName))
	}
	return key
}

// describeRest asks for what DescribeTable does not tell.
func (t *Table) describeRest(ctx context.Context, op string, d *Description) {
	d.Expiry, d.Recovery.Status, d.Stack = Unknown, Unknown, Unknown
	ttl, err := conn.Call(ctx, t.conn, op, t.api.DescribeTimeToLive, &dynamodb.DescribeTimeToLiveInput{TableName: &t.o.Table})
	switch {
	case err != nil:
		d.Unknown["DescribeTimeToLive"] = err
	case ttl.TimeToLiveDescription != nil:
		d.Expiry, d.ExpiryBy = string(ttl.TimeToLiveDescription.TimeToLiveStatus), aws.ToString(ttl.TimeToLiveDescription.AttributeName)
	}
	if d.Recovery, err = t.recovery(ctx, op); err != nil {
		d.Unknown["DescribeContinuousBackups"] = err
	}
	if d.Stack, d.Tags, err = t.tags(ctx, op, d.ARN); err != nil {
		d.Stack, d.Unknown["ListTagsOfResource"] = Unknown, err
	}
}

// recovery reads the state of point-in-time recovery.
func (t *Table) recovery(ctx context.Context, op string) (Recovery, error) {
	if t.backups == nil {
		return Recovery{Status: Unsupported}, ErrNoBackups
	}
	out, err := conn.Call(ctx, t.conn, op, t.backups.DescribeContinuousBackups, &dynamodb.DescribeContinuousBackupsInput{TableName: &t.o.Table})
	if err != nil {
		if isUnknownOperation(err) {
			return Recovery{Status: Unsupported}, backupError(op, err)
		}
		return Recovery{Status: Unknown}, err
	}
	r := Recovery{Status: string(types.PointInTimeRecoveryStatusDisabled)}
	if c := out.ContinuousBackupsDescription; c != nil && c.PointInTimeRecoveryDescription != nil {
		p := c.PointInTimeRecoveryDescription
		r = Recovery{string(p.PointInTimeRecoveryStatus), aws.ToInt32(p.RecoveryPeriodInDays), aws.ToTime(p.EarliestRestorableDateTime), aws.ToTime(p.LatestRestorableDateTime)}
	}
	return r, nil
}

// backupError is [ErrNoBackups] if the server does not have an operation. It leaves out
// the answer of such a server, which only repeats the name of the operation.
func backupError(op string, err error) error {
	if isUnknownOperation(err) {
		return fmt.Errorf("%s: %w", op, ErrNoBackups)
	}
	return err
}

// tags reads the tags of a table, and the stack that owns it. DynamoDB Local has neither.
func (t *Table) tags(ctx context.Context, op, arn string) (stack string, tags map[string]string, err error) {
	tags = map[string]string{}
	in := &dynamodb.ListTagsOfResourceInput{ResourceArn: &arn}
	for {
		out, err := conn.Call(ctx, t.conn, op, t.api.ListTagsOfResource, in)
		switch {
		case isUnknownOperation(err):
			return "", tags, nil
		case err != nil:
			return "", nil, err
		}
		for _, tag := range out.Tags {
			switch name := aws.ToString(tag.Key); {
			case name == stackTag:
				stack = aws.ToString(tag.Value)
			case len(name) >= 4 && name[:4] == "aws:": // reserved: no one else can set it
			default:
				tags[name] = aws.ToString(tag.Value)
			}
		}
		if out.NextToken == nil {
			return stack, tags, nil
		}
		in.NextToken = out.NextToken
	}
}

// exists reports whether there is a table of a name.
func (t *Table) exists(ctx context.Context, op, name string) (*types.TableDescription, bool, error) {
	out, err := conn.Call(ctx, t.conn, op, t.api.DescribeTable, &dynamodb.DescribeTableInput{TableName: &name})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	return out.Table, true, nil
}
