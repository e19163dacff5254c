package cfntest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/template"
)

// make does what the creation of a resource does to the rest of the account. A text is the
// reason for which it fails.
func (c *Cloud) make(r resource) (reason string) {
	key := r.Type + " " + r.physical
	if c.exists[key] {
		return r.physical + " already exists"
	}
	switch r.Type {
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

// decode makes a request of properties, whose names are those of the API.
func decode(r resource, to any) error {
	values := maps.Clone(r.values)
	delete(values, "Environment") // its values are texts
	text, err := json.Marshal(template.Typed(values))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// makeTable makes a table outside the cloud, which then knows whether it exists.
func (c *Cloud) makeTable(r resource) (reason string) {
	var in struct {
		dynamodb.CreateTableInput
		TimeToLiveSpecification *types.TimeToLiveSpecification
	}
	err := decode(r, &in)
	if err == nil {
		in.SSESpecification = nil                                      // the engine encrypts nothing
		if in.TableName = &r.physical; in.StreamSpecification != nil { // a template has no switch of its own
			in.StreamSpecification.StreamEnabled = aws.Bool(true)
		}
		_, err = c.o.Tables.CreateTable(context.Background(), &in.CreateTableInput)
	}
	if inUse := (*types.ResourceInUseException)(nil); errors.As(err, &inUse) {
		return r.physical + " already exists"
	}
	if err == nil && in.TimeToLiveSpecification != nil {
		_, err = c.o.Tables.UpdateTimeToLive(context.Background(), &dynamodb.UpdateTimeToLiveInput{
			TableName: &r.physical, TimeToLiveSpecification: in.TimeToLiveSpecification,
		})
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// remake does what a change of a resource in place does.
func (c *Cloud) remake(r resource) (reason string) {
	switch r.Type {
	case "AWS::Lambda::Function":
		f, err := configurationOf(r)
		if err != nil {
			return err.Error()
		}
		c.functions[r.physical] = f
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
func configurationOf(r resource) (*lambda.GetFunctionConfigurationOutput, error) {
	f := &lambda.GetFunctionConfigurationOutput{Environment: &lambdatypes.EnvironmentResponse{Variables: map[string]string{}}}
	err := decode(r, f)
	f.FunctionName, f.LastUpdateStatus = &r.physical, lambdatypes.LastUpdateStatusSuccessful
	environment, _ := r.values["Environment"].(map[string]any)
	variables, _ := environment["Variables"].(map[string]any)
	for name, value := range variables {
		f.Environment.Variables[name], _ = value.(string)
	}
	return f, err
}

// functionOf is the function of a mapping, which names it or has its ARN.
func functionOf(r resource) string {
	name, _ := r.values["FunctionName"].(string)
	return name[strings.LastIndexAny(name, ":/")+1:]
}

// destroy does what the deletion of a resource does. A thing that is gone is deleted.
func (c *Cloud) destroy(r resource) (reason string) {
	key := r.Type + " " + r.physical
	isTable := r.Type == "AWS::DynamoDB::Table"
	switch {
	case isTable && r.values["DeletionProtectionEnabled"] == "true":
		return "Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first."
	case isTable && c.o.Tables != nil:
		_, _ = c.o.Tables.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &r.physical}) // gone is deleted
		return ""
	case !c.exists[key]:
		return ""
	}
	switch r.Type {
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
