package aggregate

import (
	"context"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/aggregator/lambda"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/function"
)

// serveLambda processes what AWS Lambda delivers.
func (o *options) serveLambda(ctx context.Context, a *aggregator.Aggregator) error {
	h := lambda.New(a, lambda.Options{Table: o.app.Flags.Table, Metrics: o.app.Stdout, Now: o.app.Now})
	return function.Serve(ctx, h.Handle)
}
