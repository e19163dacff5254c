// Package grpclimit limits gRPC calls: those that a server gets, and those that a client
// makes. It is a module of its own, so that programs without gRPC do not depend on gRPC. What
// it shares with package httplimit has the same names.
//
// [Server] has interceptors that ask a limiter before a handler runs. [Client] has
// interceptors that ask a limiter before a call is sent, and that obey what the server says
// about its own limits. Both take an [Acquirer]: a *limiter.Limiter, or
// AcquirerFunc(limits.Wait) to queue calls instead of refusing them.
//
// # Whom a call counts against
//
// A [Key] reads the entity and the resource from a call: [APIKey], [Metadata], [PeerAddr],
// [Method], or any function. Read entities from what the server has authenticated.
//
// # What it costs
//
// Options.Consume has the cost of every call, Options.Cost that of one call. What is known
// only afterwards is settled: by the handler with [Settle], or by Options.Settle from the
// answer. A call is charged in full unless one of these says otherwise. What happens if a call
// ends early:
//
//   - The client leaves while the limiter decides: the limiter returns what it has taken, and
//     the handler is not called.
//   - The client leaves later: the call is charged as usual, because the work was done.
//   - The handler panics before it has sent anything: everything goes back.
//   - It panics later: the call is charged as usual.
//
// Each message of a stream may cost more: Options.Received and Options.Sent. The interceptor
// takes that before the handler gets the message, or before the message leaves. The first
// message that a limit refuses ends the stream. Options.Unenforced counts messages instead,
// and settles the sum when the stream ends.
//
// # How long slots are held
//
// Options.Slots has the slots of each call, which it holds until its handler returns: a stream as
// long as it lives, in both directions. A client's call holds them until it ends. If they are lost,
// the context of the call ends, and the call with ABORTED.
//
// # Answers
//
// A refusal is RESOURCE_EXHAUSTED, with two details of google.rpc. A RetryInfo has the
// exact wait, and is absent if no wait helps, or if slots are held: nobody knows when they come
// back. A QuotaFailure names the limits and their resource. Answers never name an entity. Of a
// parent they tell the names of limits, and no balances. Other errors have these codes:
//
//	INVALID_ARGUMENT    the call gives a malformed name or amount
//	UNAUTHENTICATED     the call has no API key
//	PERMISSION_DENIED   an operator has disabled the entity or the resource
//	UNAVAILABLE         ErrUnavailable, ErrThrottled, ErrConflict, ErrClosed; with a RetryInfo
//	CANCELLED, DEADLINE_EXCEEDED    the call ended before a decision
//	INTERNAL            ErrNotConfigured, ErrAccessDenied, and everything else that only the
//	                    server's operator can correct
//
// The interceptor's error wraps the cause, for the interceptors around it. The client gets
// the status only.
//
// # Metadata
//
// An admitted call has ratelimit and ratelimit-policy in its header, the fields of
// draft-ietf-httpapi-ratelimit-headers-11 as httplimit writes them. A refused call has them
// in its trailer, with two more. One is grpc-retry-pushback-ms, the wait in milliseconds
// rounded up, or -1 if no wait helps. The other is retry-after, the wait in seconds rounded
// up. A gRPC client whose retry policy names the code obeys the pushback (gRFC A6). It does
// so only if the server has sent no header, which is why a refused call has none.
package grpclimit
