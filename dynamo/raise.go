package dynamo

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// ReadVersion reads the version record of a table, with a consistent read. ok is false if
// there is none, as on a table made by hand.
func ReadVersion(ctx context.Context, o Options) (v Version, ok bool, err error) {
	c, err := o.versions()
	if err != nil {
		return Version{}, false, err
	}
	it, err := c.GetItem(ctx, "read the versions of "+o.Table, schema.VersionKey())
	if err != nil || it == nil {
		return Version{}, false, err
	}
	return versionOf(schema.DecodeVersion(it)), true, nil
}

// versions returns a connection for the version record.
func (o Options) versions() (*conn.Conn, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c, _, err := o.connect()
	return c, err
}

// Versions are what [RaiseVersions] writes to a version record; "" leaves a field alone.
type Versions struct {
	// Lambda is the version of the aggregator that was just deployed, in the peer's
	// numbering: [ClientVersion] for the aggregator of this module.
	Lambda string
	// ClientMin is the oldest client that the table accepts from now on, at most
	// [ClientVersion].
	ClientMin string
	// By names the program that deploys, "cli:1.2.3" for instance.
	By string
}

// check returns a [*store.ValidationError] for what is no version, or would lock out the
// caller.
func (v Versions) check() error {
	if _, ok := parseRelease(v.Lambda); v.Lambda != "" && !ok {
		return &store.ValidationError{Field: "Lambda", Value: v.Lambda, Reason: "give a version like 0.17.0"}
	}
	least, ok := parseRelease(v.ClientMin)
	if v.ClientMin != "" && !ok {
		return &store.ValidationError{Field: "ClientMin", Value: v.ClientMin, Reason: "give a version like 0.17.0"}
	}
	if client, _ := parseRelease(ClientVersion); ok && least.compare(client) > 0 {
		return &store.ValidationError{Field: "ClientMin", Value: v.ClientMin, Reason: "give at most " + ClientVersion + ", the version of this client"}
	}
	return nil
}

// RaiseVersions records what was deployed for a table, and returns the record as it then
// is. It never lowers a version: of two deployers, the one with the higher version wins,
// whichever writes last. It creates the record if there is none. A lambda version in the
// record that is no version is replaced; a client_min_version that is none gives
// [store.ErrIncompatible]. It also records that index keys are spread, if nothing is recorded and
// the table has not the peer's form: see [IndexKeys].
//
// Two deployers race as follows. Each reads, then writes under the condition that the record
// is still as it read it. The one whose condition fails reads again. After a
// lost answer, the second attempt finds nothing left to raise.
func RaiseVersions(ctx context.Context, o Options, to Versions) (Version, error) {
	if err := to.check(); err != nil {
		return Version{}, err
	}
	c, err := o.versions()
	if err != nil {
		return Version{}, err
	}
	op := "raise the versions of " + o.Table
	is, err := changeRecord(ctx, c, op, func(it item, was schema.Version) (schema.Version, error) {
		v, err := raise(versionOf(was), to)
		if err != nil {
			return schema.Version{}, err
		}
		next := was
		next.Schema, next.ClientMin, next.Lambda = v.Schema, v.ClientMin, v.Lambda
		if it[schema.IndexSpread] == nil {
			described, err := conn.Call(ctx, c, op, o.API.DescribeTable, &dynamodb.DescribeTableInput{TableName: c.Table})
			if err != nil {
				return schema.Version{}, err
			}
			next.Spread = spreadFor(it, "", described.Table)
		}
		if next != was {
			next.UpdatedBy = to.By
		}
		return next, nil
	})
	return versionOf(is), err
}

// changeRecord reads the version record, and writes what change makes of it, if that differs. It
// repeats both if somebody else wrote in between. change gets nil if there is no record.
func changeRecord(ctx context.Context, c *conn.Conn, op string, change func(item, schema.Version) (schema.Version, error)) (schema.Version, error) {
	for range conn.AdminAttempts {
		it, err := c.GetItem(ctx, op, schema.VersionKey())
		if err != nil {
			return schema.Version{}, err
		}
		was := schema.DecodeVersion(it)
		next, err := change(it, was)
		if err != nil || it != nil && next == was {
			return next, err
		}
		next.Updated = c.Clock.Now()
		err = c.PutItem(ctx, op, changedRecord(it, next))
		if _, changed := conn.ConditionFailed(err); !changed {
			return next, err
		}
	}
	return schema.Version{}, fmt.Errorf("%s: %w: try again", op, store.ErrConflict)
}

// raise returns v with the versions of to that are higher.
func raise(v Version, to Versions) (Version, error) {
	if v.Schema == "" {
		v.Schema = SchemaVersion
	}
	if v.ClientMin == "" {
		v.ClientMin = schema.NoClientMin
	}
	least, ok := parseRelease(v.ClientMin)
	if !ok {
		return Version{}, unreadable(schema.ClientMinVersion, v.ClientMin)
	}
	if next, ok := parseRelease(to.ClientMin); ok && next.compare(least) > 0 {
		v.ClientMin = to.ClientMin
	}
	deployed, ok := parseRelease(v.Lambda)
	if next, isNew := parseRelease(to.Lambda); isNew && (!ok || next.compare(deployed) > 0) {
		v.Lambda = to.Lambda
	}
	return v, nil
}

// changedRecord is the write of a version record over the one that was read. It keeps
// attributes that it does not know.
func changedRecord(old item, to schema.Version) *dynamodb.PutItemInput {
	record := schema.EncodeVersion(to)
	if old == nil {
		return &dynamodb.PutItemInput{Item: record, ConditionExpression: aws.String("attribute_not_exists(PK)")}
	}
	for name, value := range old {
		if record[name] == nil {
			record[name] = value
		}
	}
	in := &dynamodb.PutItemInput{Item: record, ConditionExpression: aws.String("attribute_exists(PK)"), ExpressionAttributeValues: item{}}
	for attribute, alias := range map[string]string{
		schema.LambdaVersion: ":lambda", schema.ClientMinVersion: ":min", schema.UpdatedAt: ":at", schema.IndexSpread: ":spread",
	} {
		if old[attribute] == nil {
			*in.ConditionExpression += " AND attribute_not_exists(" + attribute + ")"
			continue
		}
		*in.ConditionExpression += " AND " + attribute + " = " + alias
		in.ExpressionAttributeValues[alias] = old[attribute]
	}
	if len(in.ExpressionAttributeValues) == 0 {
		in.ExpressionAttributeValues = nil
	}
	return in
}

// recordTable writes the version record of a table that has none, and whether index keys are
// spread. A table that this program creates is served by its own aggregator, so the record names
// that version: the peer's clients then accept limits that need an aggregator.
func recordTable(ctx context.Context, c *conn.Conn, asked IndexKeys, table *types.TableDescription) error {
	_, err := changeRecord(ctx, c, "write version record", func(it item, v schema.Version) (schema.Version, error) {
		if it == nil {
			v = schema.Version{Schema: SchemaVersion, ClientMin: schema.NoClientMin, Lambda: ClientVersion}
		}
		v.Spread = spreadFor(it, asked, table)
		return v, nil
	})
	return err
}
