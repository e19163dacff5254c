package grpclimit

import (
	"context"

	limiter "github.com/zeroae/zae-limiter-go"
)

func leaseTake(ctx context.Context, l *limiter.Lease, tokens map[string]int64) error {
	for k, n := range tokens {
		if err := l.Adjust(k, n); err != nil {
			return err
		}
	}
	return nil
}
