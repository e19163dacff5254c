// Package function runs the program as a function of AWS Lambda.
package function

import (
	"context"
	"sync"

	runtime "github.com/aws/aws-lambda-go/lambda"
)

// EnvRuntime is set where AWS Lambda runs the program: it is the address of the runtime's
// interface.
const EnvRuntime = "AWS_LAMBDA_RUNTIME_API"

// Serve handles the events that AWS Lambda delivers, until the context ends. An event in
// progress then fails, and Lambda delivers it again. The runtime loop itself ignores the
// context: it would go on and fail every further event.
func Serve[Event, Answer any](ctx context.Context, handle func(context.Context, Event) (Answer, error)) error {
	var busy sync.Mutex // locked while an event is handled, and for good at the end
	go runtime.StartWithOptions(func(ctx context.Context, e Event) (Answer, error) {
		busy.Lock()
		defer busy.Unlock()
		return handle(ctx, e)
	}, runtime.WithContext(ctx))
	<-ctx.Done()
	busy.Lock() // no event begins while the process ends
	return nil
}
