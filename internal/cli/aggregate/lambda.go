package aggregate

import (
	"context"

	runtime "github.com/aws/aws-lambda-go/lambda"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/aggregator/lambda"
)

// serveLambda processes what AWS Lambda delivers. It does not return: Lambda ends the
// process.
func (o *options) serveLambda(ctx context.Context, a *aggregator.Aggregator) error {
	h := lambda.New(a, lambda.Options{Table: o.app.Flags.Table, Metrics: o.app.Stdout, Now: o.app.Now})
	runtime.StartWithOptions(h.Handle, runtime.WithContext(ctx))
	return nil
}
