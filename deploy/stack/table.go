package stack

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A Shape is what a table has and no update can change without replacing it.
type Shape struct {
	// LocalIndexes says that the table has local indexes.
	LocalIndexes bool
	// GSI2All says that its index GSI2 has all attributes.
	GSI2All bool
}

// Shape reads the shape of a stack's table, so that the parameters of an adopted stack keep
// it. A stack without a table has the zero Shape.
func (m *Manager) Shape(ctx context.Context, s *Stack) (Shape, error) {
	of := m.table(s)
	out, err := m.o.Clients.Database.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &of.Table})
	if isNoTable(err) {
		return Shape{}, nil
	}
	if err != nil {
		return Shape{}, translate("describe table "+of.Table, err)
	}
	shape := Shape{LocalIndexes: len(out.Table.LocalSecondaryIndexes) > 0}
	for _, ix := range out.Table.GlobalSecondaryIndexes {
		if *ix.IndexName == "GSI2" && ix.Projection != nil {
			shape.GSI2All = ix.Projection.ProjectionType == types.ProjectionTypeAll
		}
	}
	return shape, nil
}
