package grpclimit

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// Keys of the metadata that servers send.
const (
	keyLimit  = "ratelimit"
	keyPolicy = "ratelimit-policy"
	keyRetry  = "retry-after"
	// keyPushback is gRPC's own, see gRFC A6. Clients read it only in the trailer of an answer
	// that has no header.
	keyPushback = "grpc-retry-pushback-ms"
)

// setHeader tells the client of an admitted call what is left.
func setHeader(ctx context.Context, lease *limiter.Lease, entity string) {
	if md := fields(ctx, entity, lease.Statuses()); md != nil {
		_ = grpc.SetHeader(ctx, md) // it fails only if the call has ended
	}
}

// setTrailer tells the client of a call that was refused what is left, and when to come back.
func setTrailer(ctx context.Context, e *callError, entity string) {
	var md metadata.MD
	if exceeded, ok := errors.AsType[*limiter.ExceededError](e.cause); ok {
		md = fields(ctx, entity, exceeded.Statuses)
	}
	wait, ok := retryDelay(e.status)
	switch {
	case ok:
		md = metadata.Join(md, metadata.Pairs(
			keyRetry, strconv.FormatInt(roundUp(wait, time.Second), 10),
			// Some clients read a number of 32 bits.
			keyPushback, strconv.FormatInt(min(roundUp(wait, time.Millisecond), math.MaxInt32), 10),
		))
	case e.status.Code() == codes.ResourceExhausted && helpsNoWait(e.cause):
		md = metadata.Join(md, metadata.Pairs(keyPushback, "-1")) // never
	}
	_ = grpc.SetTrailer(ctx, md) // it fails only if the call has ended
}

// helpsNoWait reports whether a refused call would be refused again, whenever it comes. It may come
// again if slots are held; its client then chooses the wait.
func helpsNoWait(err error) bool {
	full, ok := errors.AsType[*limiter.SlotsError](err)
	return !ok || full.Slots > full.Of
}

// fields is what is left to an entity; nil if the limiter did not meter the call.
func fields(ctx context.Context, entity string, statuses []limiter.Status) metadata.MD {
	policy, limit := httplimit.Fields(ctx, entity, statuses)
	if limit == "" {
		return nil
	}
	values := []string{policy, limit}
	return metadata.MD{keyPolicy: values[:1:1], keyLimit: values[1:]}
}

func roundUp(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}
