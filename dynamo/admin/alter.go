package admin

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/store"
)

// Delete deletes the table and waits until it is gone. It fails with [ErrProtected] if a
// CloudFormation stack owns the table, or if deletion protection is on. It needs
// permission to list the table's tags. DynamoDB has no conditional deletion: a table that
// is replaced by another of its name at that moment is deleted, too.
func (t *Table) Delete(ctx context.Context) error {
	op := "delete table " + t.o.Table
	described, err := t.describeTable(ctx, op)
	if err != nil {
		return err
	}
	stack, _, err := t.tags(ctx, op, aws.ToString(described.TableArn))
	switch {
	case err != nil:
		return fmt.Errorf("find out whether a CloudFormation stack owns the table: %w", err)
	case stack != "":
		return fmt.Errorf("%s: %w: the CloudFormation stack %s owns it; delete the stack instead", op, ErrProtected, stack)
	case aws.ToBool(described.DeletionProtectionEnabled):
		return fmt.Errorf("%s: %w: its deletion protection is on; switch it off first: aws dynamodb update-table --table-name %s --no-deletion-protection-enabled",
			op, ErrProtected, t.o.Table)
	}
	if described.TableStatus != types.TableStatusDeleting {
		_, err = conn.Call(ctx, t.conn, op, t.api.DeleteTable, &dynamodb.DeleteTableInput{TableName: &t.o.Table})
		if err != nil {
			return err
		}
	}
	return t.await(ctx, op, "table "+t.o.Table+" to be gone", func(ctx context.Context) (bool, error) {
		_, there, err := t.exists(ctx, op, t.o.Table)
		return !there, err
	})
}

// streamView is the view that an aggregator needs.
const streamView = types.StreamViewTypeNewAndOldImages

// EnableStream gives the table a stream of old and new images, and waits until it is
// ready. It returns the stream's ARN, and whether this call enabled it. It fails with
// [store.ErrExists] if the table has a stream of another view, on which other readers may
// depend.
//
// Of two calls at a time, DynamoDB refuses one. That one finds the stream of the other.
func (t *Table) EnableStream(ctx context.Context) (arn string, enabled bool, err error) {
	op := "enable the stream of " + t.o.Table
	described, err := t.describeTable(ctx, op)
	if err != nil {
		return "", false, err
	}
	if arn, there, err := t.stream(op, described); there || err != nil {
		return arn, false, err
	}
	_, refused := conn.Call(ctx, t.conn, op, t.api.UpdateTable, &dynamodb.UpdateTableInput{
		TableName: &t.o.Table, StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: streamView},
	})
	err = t.await(ctx, op, "the stream of "+t.o.Table, func(ctx context.Context) (bool, error) {
		described, err := t.describeTable(ctx, op)
		if err != nil {
			return false, err
		}
		var there bool
		arn, there, err = t.stream(op, described)
		if !there && err == nil {
			err = refused
		}
		return there && described.TableStatus == types.TableStatusActive, err
	})
	return arn, err == nil && refused == nil, err
}

// stream finds the table's stream. It fails if the stream has another view.
func (t *Table) stream(op string, described *types.TableDescription) (arn string, there bool, err error) {
	spec := described.StreamSpecification
	switch {
	case spec == nil || !aws.ToBool(spec.StreamEnabled):
		return "", false, nil
	case spec.StreamViewType != streamView:
		return "", false, fmt.Errorf("%s: it shows %s, and other readers may depend on that; if none does, disable it first: "+
			"aws dynamodb update-table --table-name %s --stream-specification StreamEnabled=false: %w",
			op, spec.StreamViewType, t.o.Table, &store.ExistsError{Kind: "stream", Name: aws.ToString(described.LatestStreamArn)})
	}
	return aws.ToString(described.LatestStreamArn), described.LatestStreamArn != nil, nil
}
