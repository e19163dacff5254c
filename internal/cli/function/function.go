// Package function serves AWS Lambda for the commands that are functions there.
package function

import (
	"context"
	"sync"

	"github.com/aws/aws-lambda-go/lambda"
)

// Env is set where AWS Lambda runs the program.
const Env = "AWS_LAMBDA_RUNTIME_API"

// Serve handles what AWS Lambda delivers, one event at a time, until ctx ends. The event in
// progress then fails, and Lambda delivers it again. Lambda's runtime loop ignores ctx: it
// alone would go on and fail every further event.
func Serve[Event, Answer any](ctx context.Context, handle func(context.Context, Event) (Answer, error)) {
	var busy sync.Mutex // locked while an event is handled, and for good at the end
	go lambda.StartWithOptions(func(ctx context.Context, e Event) (Answer, error) {
		busy.Lock()
		defer busy.Unlock()
		return handle(ctx, e)
	}, lambda.WithContext(ctx))
	<-ctx.Done()
	busy.Lock() // no event begins while the process ends
}
