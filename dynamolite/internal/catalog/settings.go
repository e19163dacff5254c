package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
)

// UpdateTable executes the operation of that name.
//
// The answer comes before the index is filled, as on AWS. The description says CREATING until then,
// and readings of the index are refused.
func (ts *Tables) UpdateTable(c *api.Call, in *dynamodb.UpdateTableInput) (*dynamodb.UpdateTableOutput, error) {
	u, err := ts.ChangeTable(c, in)
	if err != nil {
		return nil, err
	}
	if u.Added != nil {
		ts.Background.Go(func() { ts.Fill(&Backfill{Table: u.Table, Index: u.Added}) })
	}
	return &dynamodb.UpdateTableOutput{TableDescription: u.Describe()}, nil
}

// ChangeTable puts an update into effect, except for the filling of a new index. Tests use it to
// fill an index step by step.
func (ts *Tables) ChangeTable(c *api.Call, in *dynamodb.UpdateTableInput) (*table.Update, error) {
	u, err := table.NewUpdate(in, ts.Log.Now(), ts.Streams.Options)
	if err != nil {
		return nil, err
	}
	if u.Table, err = ts.Find(c, in.TableName); err != nil {
		return nil, err
	}
	if u.Create != nil {
		u.Counters = ts.indexCounters(u.Table, *u.Create.IndexName)
	}
	if err := ts.alter(c, u.Table, u.Apply); err != nil {
		return nil, err
	}
	return u, nil
}

// indexCounters returns the counters of an index that a table will have. The lock of the names is
// taken for it before the alteration: the order of locks forbids it later.
func (ts *Tables) indexCounters(t *table.Table, index string) *table.Counters {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.ledgers[t.Name].index(index)
}

// UpdateTimeToLive executes the operation of that name.
//
// The sweep is started after the schema is in force: started before, it could find nothing to do
// and sleep. AWS takes up to an hour to enable; the engine enables at once.
func (ts *Tables) UpdateTimeToLive(c *api.Call, in *dynamodb.UpdateTimeToLiveInput) (*dynamodb.UpdateTimeToLiveOutput, error) {
	t, err := ts.Find(c, in.TableName)
	if err != nil {
		return nil, err
	}
	spec := in.TimeToLiveSpecification
	switch {
	case spec == nil:
		return nil, api.Missing("TimeToLiveSpecification")
	case spec.AttributeName == nil:
		return nil, api.Missing("AttributeName")
	case spec.Enabled == nil:
		return nil, api.Missing("Enabled")
	case *spec.AttributeName == "" || len(*spec.AttributeName) > table.MaxAttribute:
		return nil, api.Validationf("1 validation error detected: Value '%s' at 'timeToLiveSpecification.attributeName' failed to satisfy constraint: "+
			"Member must have length between 1 and %d", *spec.AttributeName, table.MaxAttribute)
	}
	attribute, enabled := *spec.AttributeName, *spec.Enabled
	if err := ts.alter(c, t, func(s *table.Schema) error { return s.SetExpiry(attribute, enabled, ts.Wake) }); err != nil {
		return nil, err
	}
	if enabled {
		ts.Expires()
	}
	return &dynamodb.UpdateTimeToLiveOutput{
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attribute), Enabled: aws.Bool(enabled)},
	}, nil
}

// DescribeTimeToLive executes the operation of that name.
func (ts *Tables) DescribeTimeToLive(c *api.Call, in *dynamodb.DescribeTimeToLiveInput) (*dynamodb.DescribeTimeToLiveOutput, error) {
	defer ts.Log.ShowAll(c)
	t, err := ts.Find(c, in.TableName)
	if err != nil {
		return nil, err
	}
	d := &types.TimeToLiveDescription{TimeToLiveStatus: types.TimeToLiveStatusDisabled}
	if attribute := t.Schema().Expiry(); attribute != "" {
		d.TimeToLiveStatus, d.AttributeName = types.TimeToLiveStatusEnabled, aws.String(attribute)
	}
	return &dynamodb.DescribeTimeToLiveOutput{TimeToLiveDescription: d}, nil
}

// TagResource executes the operation of that name.
//
// The limit of tags is checked on the result. A request may replace tags of a table that has all
// 50.
func (ts *Tables) TagResource(c *api.Call, in *dynamodb.TagResourceInput) (*dynamodb.TagResourceOutput, error) {
	t, err := ts.resource(c, in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if len(in.Tags) == 0 {
		return nil, api.Validation("At least one Tag needs to be provided as Input.")
	}
	tags, err := table.NewTags(in.Tags)
	if err != nil {
		return nil, err
	}
	return &dynamodb.TagResourceOutput{}, ts.alter(c, t, func(s *table.Schema) error {
		if s.Tags == nil {
			s.Tags = map[string]string{}
		}
		maps.Copy(s.Tags, tags)
		return table.CheckTagCount(len(s.Tags))
	})
}

// UntagResource executes the operation of that name.
//
// Keys that the table does not have are no error.
func (ts *Tables) UntagResource(c *api.Call, in *dynamodb.UntagResourceInput) (*dynamodb.UntagResourceOutput, error) {
	t, err := ts.resource(c, in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if len(in.TagKeys) == 0 {
		return nil, api.Validation("At least one Tag Key needs to be provided as Input.")
	}
	if err := table.CheckTagCount(len(in.TagKeys)); err != nil {
		return nil, err
	}
	for _, key := range in.TagKeys {
		if err := table.CheckTagKey(key); err != nil {
			return nil, err
		}
	}
	return &dynamodb.UntagResourceOutput{}, ts.alter(c, t, func(s *table.Schema) error {
		for _, key := range in.TagKeys {
			delete(s.Tags, key)
		}
		return nil
	})
}

// ListTagsOfResource executes the operation of that name.
func (ts *Tables) ListTagsOfResource(c *api.Call, in *dynamodb.ListTagsOfResourceInput) (*dynamodb.ListTagsOfResourceOutput, error) {
	defer ts.Log.ShowAll(c)
	t, err := ts.resource(c, in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if in.NextToken != nil {
		return nil, api.Validation("The NextToken is not one that ListTagsOfResource has returned")
	}
	tags := t.Schema().Tags
	out := &dynamodb.ListTagsOfResourceOutput{Tags: make([]types.Tag, 0, len(tags))}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out.Tags = append(out.Tags, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return out, nil
}

// resource finds a table by its ARN. These operations take an ARN only, and have their own error
// for a missing table.
func (ts *Tables) resource(c *api.Call, arn *string) (*table.Table, error) {
	if arn == nil {
		return nil, api.Missing("ResourceArn")
	}
	name := api.PlainTableName(*arn)
	if name == *arn {
		return nil, api.Validationf("Invalid TableArn: Invalid ResourceArn provided as input %s; an ARN of a table begins like %s", *arn, api.TableARN(""))
	}
	if strings.Contains(name, "/") {
		return nil, api.Invalid("Invalid resource arn provided, only a table's is accepted. Provided resource arn: %s", *arn)
	}
	t, err := ts.Find(c, &name)
	if _, unknown := errors.AsType[*types.ResourceNotFoundException](err); unknown {
		return nil, noResource(c.Op, *arn)
	}
	return t, err
}

// noResource returns the error for the ARN of a table that does not exist. AWS does not tell who
// asks for a table of another account or region whether it exists.
func noResource(op api.Operation, arn string) error {
	if strings.HasPrefix(arn, api.TableARN("")) {
		return &types.ResourceNotFoundException{Message: aws.String("Requested resource not found: ResourcArn: " + arn + " not found")}
	}
	return &smithy.GenericAPIError{Code: "AccessDeniedException", Fault: smithy.FaultClient, Message: fmt.Sprintf(
		"User: arn:aws:iam::000000000000:root is not authorized to perform: dynamodb:%s on resource: %s because no resource-based policy allows the dynamodb:%s action", op, arn, op)}
}
