package permissions

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go/middleware"
)

// A Note receives the SDK's input of each request before it is sent.
type Note func(ctx context.Context, input any)

// Config returns a configuration for clients of the SDK whose requests are noted. Nothing is
// sent: the first of the objects that has the operation as a method answers.
func Config(note Note, answers ...any) aws.Config {
	answer := middleware.InitializeMiddlewareFunc("answer", func(
		ctx context.Context, in middleware.InitializeInput, _ middleware.InitializeHandler,
	) (out middleware.InitializeOutput, metadata middleware.Metadata, err error) {
		note(ctx, in.Parameters)
		out.Result, err = call(ctx, in.Parameters, answers)
		return out, metadata, err
	})
	return aws.Config{Region: "eu-west-1", APIOptions: []func(*middleware.Stack) error{func(s *middleware.Stack) error {
		return s.Initialize.Add(answer, middleware.After) // the SDK refuses wrong inputs first
	}}}
}

// call calls the method for an input: GetItem for a *dynamodb.GetItemInput.
func call(ctx context.Context, input any, on []any) (any, error) {
	operation := strings.TrimSuffix(reflect.TypeOf(input).Elem().Name(), "Input")
	for _, o := range on {
		method := reflect.ValueOf(o).MethodByName(operation)
		if !method.IsValid() || method.Type().In(1) != reflect.TypeOf(input) {
			continue
		}
		results := method.Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(input)})
		err, _ := reflect.TypeAssert[error](results[1])
		return results[0].Interface(), err
	}
	return nil, fmt.Errorf("nothing answers %T", input)
}
