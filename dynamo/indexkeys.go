package dynamo

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// IndexKeys says which keys new buckets get in the indexes of resources and of namespaces.
// The table's version record says it to every store that is opened afterwards. Readers find
// buckets by the keys of both kinds, whatever the record says.
//
// If the record is changed by somebody who does not know of spread keys, the Python package or an
// older version of this one, new buckets get shared keys, until somebody asks for [SpreadKeys].
type IndexKeys string

// The values of [IndexKeys].
const (
	// SpreadKeys spreads the buckets of each resource and of each namespace over 16 partition
	// keys, so that 16 times as many buckets can be made in a second (ADR 041). Python clients
	// do not find such buckets by resource or namespace: see docs/python.md.
	SpreadKeys IndexKeys = "spread"
	// SharedKeys are the keys of the Python package, one for each resource and one for each
	// namespace: up to 1,000 buckets can be made in a second.
	SharedKeys IndexKeys = "shared"
)

// spreadFor is what the version record is to say of index keys. Without a question, it is what the
// record says. If that is nothing, a table that has not the peer's form gets spread keys, unless
// somebody has raised the oldest client, as the peer's clients do.
func spreadFor(record item, asked IndexKeys, t *types.TableDescription) schema.Spread {
	switch asked {
	case SharedKeys:
		return schema.SpreadNever
	case SpreadKeys:
		return schema.SpreadAll
	}
	v := schema.DecodeVersion(record)
	if recorded := record[schema.IndexSpread] != nil; recorded || isPeers(t) || record != nil && v.ClientMin != schema.NoClientMin {
		return v.Spread
	}
	return schema.SpreadAll
}

// isPeers reports whether a table has the form that only the peer's template makes, or an option
// that asks for it: all attributes in GSI2, or local indexes.
func isPeers(t *types.TableDescription) bool {
	return len(t.LocalSecondaryIndexes) > 0 || slices.ContainsFunc(t.GlobalSecondaryIndexes, func(ix types.GlobalSecondaryIndexDescription) bool {
		return aws.ToString(ix.IndexName) == schema.GSI2 && ix.Projection != nil && ix.Projection.ProjectionType == types.ProjectionTypeAll
	})
}
