package grpclimit

import (
	"context"
	"log/slog"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
	"github.com/zeroae/zae-limiter-go/middleware/internal/admission"
)

// What this package shares with httplimit, so that one program uses one set of names for
// both protocols.
type (
	// An Acquirer decides requests. A [*limiter.Limiter] is one.
	Acquirer = httplimit.Acquirer
	// An AcquirerFunc is a function as an [Acquirer]: AcquirerFunc(limits.Wait) makes the calls
	// of a client queue instead of failing.
	AcquirerFunc = httplimit.AcquirerFunc
	// A Decision is what the limiter decided about a call.
	Decision = httplimit.Decision
	// A HeldError is a call that a [Client] has not sent, because the server has asked for a
	// pause.
	HeldError = httplimit.HeldError
)

// ErrHeld says that the server has asked for a pause. See [HeldError].
var ErrHeld = httplimit.ErrHeld

// Defaults of [Options] and [ClientOptions].
const (
	// DefaultLimit is the limit of which every call takes one token.
	DefaultLimit = httplimit.DefaultLimit
	// DefaultRetryUnavailable is the wait that a server suggests in an outage.
	DefaultRetryUnavailable = httplimit.DefaultRetryUnavailable
	// DefaultOutbound is the entity of every call that a client makes.
	DefaultOutbound = httplimit.DefaultOutbound
	// DefaultMaxHold is the longest time for which a client obeys a server.
	DefaultMaxHold = httplimit.DefaultMaxHold
)

// A Call is what is known of a call before it begins.
type Call struct {
	// Method is the full name of the method: "/package.Service/Method".
	Method string
	// Unregistered says that the server has no such method, and serves the call with its
	// handler of unknown services. The client chose the name. It is false on clients.
	Unregistered bool
	// Message is the request of a unary call; nil for a stream.
	Message any
}

// An Outcome is how a call ended.
type Outcome struct {
	// Answer is the answer of a unary call that succeeded; otherwise nil.
	Answer any
	// Err is the error of the handler, or the one that the client got; nil if there is none.
	Err error
}

// A MessageCost is what one message of a stream costs, in tokens by limit. With Unenforced it
// names only limits that the call names as well. nil means that the message costs nothing. So
// do messages after the handler has ended the lease itself.
type MessageCost func(ctx context.Context, call *Call, message any) map[string]int64

// costs say what calls and messages cost. Servers and clients have the same.
type costs struct {
	admission.Asker[*Call]

	settle         func(context.Context, *Call, *Outcome) map[string]int64
	received, sent MessageCost
	unenforced     bool
}

// Options configure a [Server]. The zero value takes one token of the limit "requests"
// for each call. The resource is the method, and the entity is the address that opened
// the connection.
type Options struct {
	// Entity is who a call counts against. Default: [PeerAddr].
	Entity Key
	// Resource is what a call uses. Default: [Method].
	Resource Key
	// Consume are the tokens that each call takes before its handler runs, by limit. An
	// amount of 0 declares a limit that is settled later, or that messages take from. Default:
	// 1 of [DefaultLimit], or nothing if there are Slots.
	Consume map[string]int64
	// Cost returns the tokens that one call takes, in place of Consume.
	Cost func(context.Context, *Call) (map[string]int64, error)
	// Received and Sent are what each message of a stream costs that the server receives or
	// sends, in addition. Default: nothing.
	Received, Sent MessageCost
	// Unenforced counts the messages of a stream without asking the limiter for each. Their
	// sum is written when the stream ends, and may leave a debt. Default: the server asks,
	// with one write for each message that costs something.
	Unenforced bool
	// Settle returns what a call really used, by limit, after its handler has returned. Limits
	// that it leaves out keep what they took. The call must have named the limits. What the
	// handler settled itself is overwritten. Default: nothing changes.
	Settle func(context.Context, *Call, *Outcome) map[string]int64
	// Slots are the slots that each call holds, by limit: how many calls run at a time. It holds
	// them until its handler returns, a stream's too. If they are lost, the context of the call
	// ends with [limiter.ErrSlotsLost]. Default: none.
	Slots map[string]int64
	// ClampPercent, if not 0, cuts what a call takes at first of each limit to that part of its
	// capacity, as in [limiter.Request]: for costs that are estimates. What Settle says counts in the end.
	// Default: no clamp.
	ClampPercent int
	// Fallback and SlotFallback are limits that hold only where no level configures any, as in
	// [limiter.Request].
	Fallback     []limiter.Limit
	SlotFallback []limiter.SlotLimit
	// OnUnavailable is what happens when the store cannot be reached. [limiter.Block] answers
	// UNAVAILABLE. [limiter.Allow] serves the call, without metadata. [limiter.Share] decides it by this
	// process's share, and answers UNAVAILABLE if there is none. Default: as the system's
	// configuration says.
	OnUnavailable limiter.OnUnavailable
	// RetryUnavailable is the wait that an UNAVAILABLE answer suggests. Default
	// [DefaultRetryUnavailable].
	RetryUnavailable time.Duration
	// Skip says which calls are not limited: health checks, for instance. Default: none.
	Skip func(context.Context, *Call) bool
	// Shadow serves calls that the limiter refuses, and sends no metadata. The limiter decides
	// and counts as usual, so that Observe can tell what would happen. The handler of a
	// refused call has no lease, and lost slots end nothing. Messages are counted as with
	// Unenforced.
	Shadow bool
	// Observe is told of each decision about a call, before the handler or the answer. It must
	// not block.
	Observe func(context.Context, *Call, *Decision)
	// Logger gets, once for each cause, what clients cannot correct: why the limiter cannot
	// decide, and leases that were not settled. Default: [slog.Default].
	Logger *slog.Logger
}

// ClientOptions configure a [Client]. The zero value takes one token of the limit "requests"
// for each call, from the entity "outbound".
type ClientOptions struct {
	// Entity is who a call counts against: the account at the server, for instance. Default:
	// [DefaultOutbound] for all calls.
	Entity Key
	// Resource is what a call uses. Default: [Method].
	Resource Key
	// Consume, Cost, Received, Sent, Unenforced and Settle are those of [Options], from the
	// client's side.
	Consume        map[string]int64
	Cost           func(context.Context, *Call) (map[string]int64, error)
	Received, Sent MessageCost
	Unenforced     bool
	Settle         func(context.Context, *Call, *Outcome) map[string]int64
	// Slots are the slots that each call holds until it ends, or its stream, by limit. If they
	// are lost, the call is canceled.
	Slots map[string]int64
	// ClampPercent cuts what a call takes at first, as in [Options].
	ClampPercent int
	// Fallback and SlotFallback are limits that hold only where no level configures any.
	Fallback     []limiter.Limit
	SlotFallback []limiter.SlotLimit
	// OnUnavailable is what happens when the store cannot be reached, as in [Options].
	OnUnavailable limiter.OnUnavailable
	// Skip says which calls are not limited, and not held. Default: none.
	Skip func(context.Context, *Call) bool
	// WaitHeld makes calls wait while the server has asked for a pause, unless their context
	// would end first. Default: they fail with a [*HeldError] at once.
	WaitHeld bool
	// MaxHold bounds the time for which a server is obeyed. Default [DefaultMaxHold]. Negative
	// ignores what servers say.
	MaxHold time.Duration
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
	// Logger gets the same as that of [Options].
	Logger *slog.Logger
}
