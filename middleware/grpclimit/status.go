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
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
	"github.com/zeroae/zae-limiter-go/middleware/internal/admission"
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

// lost is the error of a call that failed because its slots were lost. A part of the work may be
// done.
func lost(err error) *callError {
	return &callError{status.New(codes.Aborted, "the call lost its slots: try again"), errors.Join(limiter.ErrSlotsLost, err)}
}

// errorOf is the error of a call, or of a message, that was not admitted.
func (c *charge) errorOf(ctx context.Context, err error) *callError {
	exceeded, full, held := (*limiter.ExceededError)(nil), (*limiter.SlotsError)(nil), (*HeldError)(nil)
	own, isStatus := status.FromError(err)
	switch {
	case errors.As(err, &exceeded):
		return &callError{refusal(c.outer, exceeded), err}
	case errors.As(err, &full):
		return &callError{noSlots(c.outer, full), err}
	case errors.As(err, &held):
		message := ErrHeld.Error() + ": retry after " + held.RetryAfter.String()
		return &callError{detailed(codes.ResourceExhausted, message, retryInfo(held.RetryAfter)), err}
	case isStatus: // of a key
		return &callError{own, err}
	case ctx.Err() != nil:
		return &callError{status.FromContextError(ctx.Err()), err}
	}
	reason := (*httplimit.RequestError)(nil)
	if errors.As(err, &reason) {
		return &callError{c.costs.statusOf(err, reason.Reason), err}
	}
	if admission.IsDefect(err) {
		c.costs.Notices.Tell(ctx, "call not decided", err, "method", c.call.Method)
	}
	return &callError{c.costs.statusOf(err, ""), err}
}

// statusOf is the status of an error that has a status over HTTP. The message is the one that
// is given, if any.
func (c *costs) statusOf(err error, message string) *status.Status {
	code, retries := codes.Internal, false
	var usual string
	switch httpStatus := httplimit.StatusOf(err); httpStatus {
	case http.StatusTooManyRequests:
		code, usual, retries = codes.ResourceExhausted, "too many calls wait", true
	case http.StatusBadRequest:
		code, usual = codes.InvalidArgument, "the call gives a name or an amount that is not valid"
	case http.StatusUnauthorized:
		code, usual = codes.Unauthenticated, "the call does not say who sends it"
	case http.StatusForbidden:
		code, usual = codes.PermissionDenied, "calls of this client are disabled"
	case http.StatusServiceUnavailable:
		code, usual, retries = codes.Unavailable, "the rate limiter is not available", true
	default:
		usual = admission.Advice(err)
		if httpStatus < http.StatusInternalServerError { // a key has chosen it
			code = codes.FailedPrecondition
		}
	}
	if message == "" {
		message = usual
	}
	if retries {
		return detailed(code, message, retryInfo(c.RetryUnavailable))
	}
	return status.New(code, message)
}

// refusal names the limits that refused, their resource, and the wait. It names no entity, and
// tells nothing of a parent but the names of its limits. outer is the admission of an
// interceptor around this one; nil if there is none.
func refusal(outer *admission.Admission, e *limiter.ExceededError) *status.Status {
	var names []string
	resource, quota := "", &errdetails.QuotaFailure{}
	for i := range e.Statuses {
		s := &e.Statuses[i]
		if !s.Exceeded || slices.Contains(names, s.Limit.Name) {
			continue
		}
		names, resource = append(names, s.Limit.Name), s.Resource
		quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{
			Subject: "limit:" + s.Limit.Name, Description: "the rate limit is exceeded",
			QuotaMetric: s.Resource, QuotaId: outer.Policy(s),
		})
	}
	message := fmt.Sprintf("%s: %s of %s", limiter.ErrExceeded, strings.Join(names, ", "), resource)
	wait := e.RetryAfter()
	if wait == limiter.Never {
		return detailed(codes.ResourceExhausted, message+": the call asks for more than the limit can hold: ask for less", quota)
	}
	return detailed(codes.ResourceExhausted, message+": retry after "+wait.String(), quota, retryInfo(wait))
}

// noSlots names the limit whose slots are held, and its resource. Nobody knows the wait.
func noSlots(outer *admission.Admission, e *limiter.SlotsError) *status.Status {
	return detailed(codes.ResourceExhausted, admission.Full(e), &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
		Subject: "limit:" + e.Limit, Description: limiter.ErrSlotsFull.Error(), QuotaMetric: e.Resource, QuotaId: outer.PolicyOf(e.Resource, e.Limit),
	}}})
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
