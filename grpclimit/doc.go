// Package grpclimit limits gRPC calls: interceptors for servers and clients, on unary and
// streaming calls, over anything that decides requests, a [limiter.Limiter] for instance.
// It is a module of its own, so that programs without gRPC do not depend on gRPC.
//
// # Servers
//
// A [Server] asks the limiter before the handler runs. [Options] say which entity
// calls, which resource it consumes, and what the call costs. The handler finds the lease
// in its context ([LeaseFrom]) and settles there what it really used. The interceptor
// commits the lease when the handler returns, also if the client has left by then, and
// rolls it back if the handler panics.
//
// A refusal has the code RESOURCE_EXHAUSTED, and two details of google.rpc: a RetryInfo with
// the exact wait, which is absent if no wait can make the call admissible, and a
// QuotaFailure that names the limits. An answer never names an entity. The caller of an
// entity that cascades sees the names of its parent's limits, and nothing else of the parent.
//
// Other errors of the limiter have these codes:
//
//	INVALID_ARGUMENT    the entity is not a valid name; the caller sent it
//	UNAUTHENTICATED     the call names no entity
//	PERMISSION_DENIED   an operator has disabled the entity or the resource
//	UNAVAILABLE         the store is unreachable, throttled or contended, or the limiter is
//	                    closed; with a RetryInfo
//	CANCELLED, DEADLINE_EXCEEDED    the call ended during the decision
//	INTERNAL            the limiter is not configured as the call needs it, has no permission
//	                    on the table, or cannot read it
//
// The message of such a status says no more than this table. The interceptor returns an
// error that wraps the cause, for the interceptors around it, and logs an INTERNAL one.
//
// # Metadata
//
// An admitted call has ratelimit and ratelimit-policy in its header: the fields of
// draft-ietf-httpapi-ratelimit-headers-10, so that a gateway to HTTP can pass them on. The
// remaining tokens are those of the caller's own entity.
//
// A refused call has them in its trailer, with two more: grpc-retry-pushback-ms, the wait in
// milliseconds rounded up, or -1 for "never", and retry-after, the wait in seconds rounded
// up. A gRPC client whose retry policy names RESOURCE_EXHAUSTED or UNAVAILABLE obeys the
// pushback (gRFC A6). It does so only if the server has sent no header, which is why a
// refused call has none.
//
// # Streams
//
// The call costs [Options.Cost] when it begins. Each message received and sent may
// cost more. The interceptor takes that before the handler gets the message, or before
// the message leaves. A refusal ends the stream with the status above. With
// [Options.Unenforced] the interceptor counts messages without asking, and settles
// the sum when the stream ends. That saves a write for each message, but a stream may then
// leave a debt.
//
// # Clients
//
// A [Client] obeys limits before it calls, and never sends a call that a limit refuses. It
// fails the call or, with [Options.Wait], waits. It also learns from the server: after
// an answer with a RetryInfo it sends no call of the same kind until that time has passed.
package grpclimit
