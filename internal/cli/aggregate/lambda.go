package aggregate

import (
	"context"
	"sync"

	"github.com/aws/aws-lambda-go/events"
	runtime "github.com/aws/aws-lambda-go/lambda"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/aggregator/lambda"
)

// serveLambda processes what AWS Lambda delivers, until the context ends. A batch in
// progress then fails, and Lambda delivers it again. The runtime loop itself ignores the
// context: it would go on and fail every further batch.
func (o *options) serveLambda(ctx context.Context, a *aggregator.Aggregator) error {
	h := lambda.New(a, lambda.Options{Table: o.app.Flags.Table, Metrics: o.app.Stdout, Now: o.app.Now})
	var busy sync.Mutex // locked while a batch is processed, and for good at the end
	go runtime.StartWithOptions(func(ctx context.Context, e events.DynamoDBEvent) (events.DynamoDBEventResponse, error) {
		busy.Lock()
		defer busy.Unlock()
		return h.Handle(ctx, e)
	}, runtime.WithContext(ctx))
	<-ctx.Done()
	busy.Lock() // no batch begins while the process ends
	return nil
}
