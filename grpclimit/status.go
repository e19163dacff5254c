package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// A callError is the status that ends a call, with its cause. Interceptors around this one and
// callers of a client see the cause. What a server sends is the status only.
type callError struct {
	status *status.Status
	cause  error
}

// GRPCStatus returns the status, for [status.FromError].
func (e *callError) GRPCStatus() *status.Status { return e.status }

// Error returns what the status says.
func (e *callError) Error() string {
	return fmt.Sprintf("%s: %s", e.status.Code(), e.status.Message())
}

// Unwrap returns the cause.
func (e *callError) Unwrap() error { return e.cause }

// errorOf is the error of a call, or of a message, that was not admitted.
func (c *costs) errorOf(ctx context.Context, call *Call, err error) *callError {
	exceeded, held := (*limiter.ExceededError)(nil), (*HeldError)(nil)
	own, isStatus := status.FromError(err)
	switch {
	case errors.As(err, &exceeded):
		return &callError{refusal(exceeded), err}
	case errors.As(err, &held):
		message := ErrHeld.Error() + ": retry after " + held.RetryAfter.String()
		return &callError{detailed(codes.ResourceExhausted, message, retryInfo(held.RetryAfter)), err}
	case isStatus: // of a key
		return &callError{own, err}
	case ctx.Err() != nil:
		return &callError{status.FromContextError(ctx.Err()), err}
	}
	var st *status.Status
	switch httplimit.StatusOf(err) {
	case http.StatusTooManyRequests:
		st = detailed(codes.ResourceExhausted, "too many calls wait", retryInfo(c.retryUnavailable))
	case http.StatusBadRequest:
		st = status.New(codes.InvalidArgument, "the call gives a name or an amount that is not valid")
	case http.StatusUnauthorized:
		st = status.New(codes.Unauthenticated, "the call does not say who sends it")
	case http.StatusForbidden:
		st = status.New(codes.PermissionDenied, "calls of this client are disabled")
	case http.StatusServiceUnavailable:
		st = detailed(codes.Unavailable, "the rate limiter is not available", retryInfo(c.retryUnavailable))
	default:
		c.logger.ErrorContext(ctx, "call not decided", "method", call.Method, "error", err)
		st = status.New(codes.Internal, "the rate limiter cannot decide about this call")
	}
	return &callError{st, err}
}

// refusal names the limits that refused, and the wait. It names no entity, and tells nothing of
// a parent but the names of its limits.
func refusal(e *limiter.ExceededError) *status.Status {
	var names []string
	quota := &errdetails.QuotaFailure{}
	for i := range e.Statuses {
		s := &e.Statuses[i]
		if !s.Exceeded || slices.Contains(names, s.Limit.Name) {
			continue
		}
		names = append(names, s.Limit.Name)
		quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{
			Subject: "limit:" + s.Limit.Name, Description: "the rate limit is exceeded",
			QuotaMetric: s.Resource, QuotaId: s.Limit.Name,
		})
	}
	message := limiter.ErrExceeded.Error() + ": " + strings.Join(names, ", ")
	wait := e.RetryAfter()
	if wait == limiter.Never {
		return detailed(codes.ResourceExhausted, message+": the call asks for more than the limit can hold: ask for less", quota)
	}
	return detailed(codes.ResourceExhausted, message+": retry after "+wait.String(), quota, retryInfo(wait))
}

func retryInfo(wait time.Duration) protoadapt.MessageV1 {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}
}

// detailed is a status with details.
func detailed(code codes.Code, message string, details ...protoadapt.MessageV1) *status.Status {
	st, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		panic(err) // the code is not OK, and the details are known messages
	}
	return st
}

// retryDelay is the wait that a status asks for, in a RetryInfo.
func retryDelay(st *status.Status) (wait time.Duration, ok bool) {
	for _, detail := range st.Details() {
		if info, is := detail.(*errdetails.RetryInfo); is && info.GetRetryDelay().IsValid() {
			return info.GetRetryDelay().AsDuration(), true
		}
	}
	return 0, false
}
