package cfntest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// make does what the creation of a resource does to the rest of the account. A text is the
// reason for which it fails.
func (c *Cloud) make(r resource) (reason string) {
	key := r.kind + " " + r.physical
	if c.exists[key] {
		return r.physical + " already exists"
	}
	switch r.kind {
	case "AWS::DynamoDB::Table":
		if c.o.Tables != nil {
			return c.makeTable(r)
		}
	case "AWS::S3::Bucket":
		c.buckets[r.physical] = map[string][]byte{}
	default:
		if reason := c.remake(r); reason != "" {
			return reason
		}
	}
	c.exists[key] = true
	return ""
}

// makeTable makes a table outside the cloud, which then knows whether it exists.
func (c *Cloud) makeTable(r resource) (reason string) {
	_, err := c.o.Tables.CreateTable(context.Background(), tableInput(r))
	if inUse := (*types.ResourceInUseException)(nil); errors.As(err, &inUse) {
		return r.physical + " already exists"
	}
	if err == nil {
		err = c.setExpiry(r)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// setExpiry enables the deletion of expired items, if the table has it.
func (c *Cloud) setExpiry(r resource) error {
	s, ok := r.values["TimeToLiveSpecification"].(map[string]any)
	if !ok {
		return nil
	}
	attribute, _ := s["AttributeName"].(string)
	on := fmt.Sprint(s["Enabled"]) == "true"
	_, err := c.o.Tables.UpdateTimeToLive(context.Background(), &dynamodb.UpdateTimeToLiveInput{
		TableName: &r.physical, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &attribute, Enabled: &on},
	})
	return err
}

// remake does what a change of a resource in place does.
func (c *Cloud) remake(r resource) (reason string) {
	switch r.kind {
	case "AWS::Lambda::Function":
		c.functions[r.physical] = configurationOf(r)
		code, _ := r.values["Code"].(map[string]any)
		bucket, _ := code["S3Bucket"].(string)
		key, _ := code["S3Key"].(string)
		if bucket == "" {
			return "" // the code is in the template
		}
		return c.load(r.physical, bucket, key)
	case "AWS::Lambda::EventSourceMapping":
		state := "Enabled"
		if r.values["Enabled"] == "false" {
			state = "Disabled"
		}
		if function := functionOf(r); c.mappings[function] == "" {
			c.mappings[function] = state
		}
	}
	return ""
}

// load puts the code of an object into a function. A text is the reason for which it fails.
func (c *Cloud) load(function, bucket, key string) (reason string) {
	content, ok := c.buckets[bucket][key]
	if !ok {
		return "Error occurred while GetObject. S3 Error Code: NoSuchKey. S3 Error Message: The specified key does not exist."
	}
	sum := sha256.Sum256(content)
	c.functions[function].CodeSha256 = aws.String(base64.StdEncoding.EncodeToString(sum[:]))
	return ""
}

// configurationOf is what Lambda tells of a function, apart from its code.
func configurationOf(r resource) *lambda.GetFunctionConfigurationOutput {
	text := func(of any) string { s, _ := of.(string); return s }
	number := func(name string) *int32 {
		n, err := strconv.ParseInt(text(r.values[name]), 10, 32)
		if err != nil {
			return nil
		}
		return aws.Int32(int32(n))
	}
	f := &lambda.GetFunctionConfigurationOutput{
		FunctionName: &r.physical, Handler: aws.String(text(r.values["Handler"])), Runtime: lambdatypes.Runtime(text(r.values["Runtime"])),
		MemorySize: number("MemorySize"), Timeout: number("Timeout"), Environment: &lambdatypes.EnvironmentResponse{Variables: map[string]string{}},
		LastUpdateStatus: lambdatypes.LastUpdateStatusSuccessful,
	}
	if all, _ := r.values["Architectures"].([]any); len(all) > 0 {
		f.Architectures = []lambdatypes.Architecture{lambdatypes.Architecture(text(all[0]))}
	}
	environment, _ := r.values["Environment"].(map[string]any)
	variables, _ := environment["Variables"].(map[string]any)
	for name, value := range variables {
		f.Environment.Variables[name] = text(value)
	}
	return f
}

// functionOf is the function of a mapping, which names it or has its ARN.
func functionOf(r resource) string {
	name, _ := r.values["FunctionName"].(string)
	return name[strings.LastIndexAny(name, ":/")+1:]
}

// destroy does what the deletion of a resource does. A thing that is gone is deleted.
func (c *Cloud) destroy(r resource) (reason string) {
	key := r.kind + " " + r.physical
	isTable := r.kind == "AWS::DynamoDB::Table"
	switch {
	case isTable && r.values["DeletionProtectionEnabled"] == "true":
		return "Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first."
	case isTable && c.o.Tables != nil:
		_, _ = c.o.Tables.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &r.physical}) // gone is deleted
		return ""
	case !c.exists[key]:
		return ""
	}
	switch r.kind {
	case "AWS::S3::Bucket":
		if len(c.buckets[r.physical]) > 0 {
			return "The bucket you tried to delete is not empty (Service: S3, Status Code: 409)"
		}
		delete(c.buckets, r.physical)
	case "AWS::Lambda::EventSourceMapping":
		delete(c.mappings, functionOf(r))
	}
	delete(c.exists, key)
	return ""
}

// tableInput makes the request for a table from its properties.
func tableInput(r resource) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{TableName: &r.physical, BillingMode: types.BillingModePayPerRequest, KeySchema: keySchema(r.values["KeySchema"])}
	for name, d := range keyed(r.values["AttributeDefinitions"], "AttributeName") {
		kind, _ := d["AttributeType"].(string)
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeType(kind)})
	}
	for name, d := range keyed(r.values["GlobalSecondaryIndexes"], "IndexName") {
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: &name, KeySchema: keySchema(d["KeySchema"]), Projection: projection(d["Projection"]),
		})
	}
	for name, d := range keyed(r.values["LocalSecondaryIndexes"], "IndexName") {
		in.LocalSecondaryIndexes = append(in.LocalSecondaryIndexes, types.LocalSecondaryIndex{
			IndexName: &name, KeySchema: keySchema(d["KeySchema"]), Projection: projection(d["Projection"]),
		})
	}
	if s, ok := r.values["StreamSpecification"].(map[string]any); ok {
		view, _ := s["StreamViewType"].(string)
		on := true
		in.StreamSpecification = &types.StreamSpecification{StreamEnabled: &on, StreamViewType: types.StreamViewType(view)}
	}
	if r.values["DeletionProtectionEnabled"] == "true" {
		on := true
		in.DeletionProtectionEnabled = &on
	}
	return in
}

// keySchema has the hash key first, as DynamoDB wants it.
func keySchema(list any) []types.KeySchemaElement {
	var key []types.KeySchemaElement
	for name, e := range keyed(list, "AttributeName") {
		kind, _ := e["KeyType"].(string)
		key = append(key, types.KeySchemaElement{AttributeName: &name, KeyType: types.KeyType(kind)})
	}
	slices.SortFunc(key, func(a, b types.KeySchemaElement) int { return strings.Compare(string(a.KeyType), string(b.KeyType)) })
	return key
}

func projection(v any) *types.Projection {
	m, _ := v.(map[string]any)
	kind, _ := m["ProjectionType"].(string)
	return &types.Projection{ProjectionType: types.ProjectionType(kind)}
}
