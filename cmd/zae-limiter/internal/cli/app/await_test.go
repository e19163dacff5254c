package app_test

import (
	"context"
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// Work that takes long is not waited for once the context ends.
func TestAwaitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	end := make(chan struct{})
	defer close(end)
	_, err := app.Await(ctx, func() (int, error) {
		cancel(stop)
		<-end
		return 1, nil
	})
	if !errors.Is(err, stop) {
		t.Errorf("got error %v", err)
	}
	if n, err := app.Await(t.Context(), func() (int, error) { return 1, nil }); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}
