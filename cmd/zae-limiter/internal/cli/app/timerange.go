package app

import (
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/store"
)

// ParseRange reads the flags --start and --end, see [manage.ParseRange].
func ParseRange(start, end string) (from, to time.Time, err error) {
	from, to, err = manage.ParseRange(start, end)
	return from, to, OfFlag(err)
}

// OfFlag names the flag that an error is about as the flag is written.
func OfFlag(err error) error {
	invalid := (*store.ValidationError)(nil)
	if !errors.As(err, &invalid) {
		return err
	}
	return &store.ValidationError{Field: "--" + invalid.Field, Value: invalid.Value, Reason: invalid.Reason}
}
