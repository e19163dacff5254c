package connect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/fleet"
)

// Workers makes a starter that calls a function of AWS Lambda and does not wait for it.
func Workers(ctx context.Context, e app.Endpoint, function string) (fleet.Starter, error) {
	cfg, err := load(ctx, e)
	if err != nil {
		return nil, err
	}
	return &workers{lambda.NewFromConfig(cfg), function}, nil
}

type workers struct {
	client   *lambda.Client
	function string
}

// Start calls the function with a job.
func (w *workers) Start(ctx context.Context, j fleet.Job) error {
	op := "call function " + w.function
	payload, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	out, err := w.client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &w.function, InvocationType: types.InvocationTypeEvent, Payload: payload})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if out.StatusCode != http.StatusAccepted {
		return fmt.Errorf("%s: it answered %d %s", op, out.StatusCode, aws.ToString(out.FunctionError))
	}
	return nil
}
