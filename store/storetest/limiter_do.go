package storetest

import (
	"context"

	"github.com/zeroae/zae-limiter-go"
)

// failing is work that fails.
func failing(err error) func(context.Context, *limiter.Lease) error {
	return func(context.Context, *limiter.Lease) error { return err }
}

// panics does work that panics, and recovers.
func (u *user) panics(req limiter.Request) {
	u.Helper()
	defer func() {
		if recover() == nil {
			u.Error("the panic was swallowed")
		}
	}()
	err := u.Do(u.Context(), req, func(context.Context, *limiter.Lease) error { panic("the model is down") })
	u.Errorf("a panic became %v", err)
}
