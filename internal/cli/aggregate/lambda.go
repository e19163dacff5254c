package aggregate

import (
	"context"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/aggregator/lambda"
	"github.com/zeroae/zae-limiter-go/internal/cli/function"
)

// serveLambda processes what AWS Lambda delivers, until the context ends.
func (o *options) serveLambda(ctx context.Context, a *aggregator.Aggregator) {
	h := lambda.New(a, lambda.Options{Table: o.app.Flags.Table, Metrics: o.app.Stdout, Now: o.app.Now})
	function.Serve(ctx, h.Handle)
}
