package limiter

import (
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// The parts of the contract between limiters and stores that users name. Package
// store documents them.
type (
	// A Store keeps buckets and configuration.
	Store = store.Store
	// A BucketLister is a [Store] that can list the buckets of a resource, as
	// [Limiter.Top] needs.
	BucketLister = store.BucketLister
	// A Bucket names one shard of what an entity may consume of a resource.
	Bucket = store.Bucket
	// A Limit is a token bucket's configuration.
	Limit = store.Limit
	// A SlotLimit says how many requests run at a time; [Slots] makes it.
	SlotLimit = store.SlotLimit
	// A Renewal says when a quota renews; [ParseRenewal] makes it.
	Renewal = store.Renewal
	// A Carry is what a quota takes from a period into the next one.
	Carry = store.Carry
	// A Schedule says when a limit has other parameters, and which; [ParseSchedule] makes it.
	Schedule = store.Schedule
	// A Mode is what a limit does to the requests that name it.
	Mode = store.Mode
	// An Entity is a consumer; it may have a parent and cascade to it.
	Entity = store.Entity
	// A Config is what one level of configuration sets.
	Config = store.Config
	// A ConfigKey names a level of configuration.
	ConfigKey = store.ConfigKey
	// A SaturatedWarning says that a bucket has [MaxShards] shards and is written to faster
	// than they all sustain. The limiter logs it, as the attribute "warning".
	SaturatedWarning = store.SaturatedWarning
	// An UnconfiguredWarning says that limits of a level do not hold after a change of
	// configuration, because another level holds instead that does not have them.
	UnconfiguredWarning = store.UnconfiguredWarning
	// OnUnavailable is what an acquire does when the store cannot be reached.
	OnUnavailable = store.OnUnavailable
)

// Bounds of a limit's parameters, and of a request and its amounts.
const (
	// MaxTokens is the largest capacity, refill amount or requested amount, in tokens.
	MaxTokens = store.MaxTokens
	// MaxPeriod is the longest refill period.
	MaxPeriod = store.MaxPeriod
	// MaxLimits is the most limits that a bucket, a level of configuration or a request
	// has.
	MaxLimits = store.MaxLimits
	// MaxShards is the maximum number of shards of a bucket: 32,000 writes a second to
	// one bucket.
	MaxShards = store.MaxShards
	// MaxResources is the most resources that a request names.
	MaxResources = 16
	// MaxTop is the largest number of balances that [Limiter.Top] returns.
	MaxTop = 1000
	// DefaultResource stands for every resource that a level of configuration does not
	// name.
	DefaultResource = store.DefaultResource
)

// The values of [OnUnavailable].
const (
	// Block returns [ErrUnavailable]. It is the default.
	Block = store.Block
	// Allow returns a degraded lease: the work goes on, and nothing is metered.
	Allow = store.Allow
	// Share admits this process's share of the limits, see [ShareOptions].
	Share = store.Share
)

// The values of [Mode].
const (
	// Enforce refuses requests for more than the limit holds. It is the default.
	Enforce = store.Enforce
	// Shadow refuses nobody, and says whom it would have refused.
	Shadow = store.Shadow
	// Off refuses nobody, and says nothing.
	Off = store.Off
)

// Errors with data. errors.Is matches each with the condition of the same name.
type (
	// A ValidationError names an argument that is not accepted and says how to correct
	// it.
	ValidationError = store.ValidationError
	// A NotFoundError names a table, namespace or entity that does not exist.
	NotFoundError = store.NotFoundError
	// A NotConfiguredError names limits that a request asks for and its bucket is not to
	// have.
	NotConfiguredError = store.NotConfiguredError
	// An ExistsError names the thing that exists already.
	ExistsError = store.ExistsError
	// A NestedCascadeError names three entities of which two would cascade in a row.
	NestedCascadeError = store.NestedCascadeError
	// A DisabledError names an entity and resource that an operator disabled.
	DisabledError = store.DisabledError
	// An UnsupportedError names a peer's feature that this version cannot evaluate.
	UnsupportedError = store.UnsupportedError
	// An IncompleteError says how much of a change was made.
	IncompleteError = store.IncompleteError
	// A CorruptError names an item that cannot be decoded.
	CorruptError = store.CorruptError
)

// Conditions of stores that callers branch on.
var (
	// ErrInvalid: an argument is not accepted. See [ValidationError].
	ErrInvalid = store.ErrInvalid
	// ErrUnavailable: the store could not be reached or did not answer in time; the
	// requested operation may or may not have happened. Throttling is ErrUnavailable
	// too.
	ErrUnavailable = store.ErrUnavailable
	// ErrThrottled: the store throttled the request; nothing was applied.
	ErrThrottled = store.ErrThrottled
	// ErrHotPartition: the store throttled the request because of the rate at the one
	// partition that holds the item. It is always ErrThrottled too.
	ErrHotPartition = store.ErrHotPartition
	// ErrConflict: other writers kept changing the item first; nothing was applied.
	ErrConflict = store.ErrConflict
	// ErrAccessDenied: the credentials are missing or expired, or do not permit the
	// operation.
	ErrAccessDenied = store.ErrAccessDenied
	// ErrNotFound: the table, namespace or entity does not exist. See [NotFoundError].
	ErrNotFound = store.ErrNotFound
	// ErrNotConfigured: a request names a limit that no level configures, nor its
	// Fallback. The request is well formed. See [NotConfiguredError].
	ErrNotConfigured = store.ErrNotConfigured
	// ErrExists: the thing to create exists already. See [ExistsError].
	ErrExists = store.ErrExists
	// ErrNestedCascade: a cascade is one level, and the entity would be a second. See
	// [NestedCascadeError].
	ErrNestedCascade = store.ErrNestedCascade
	// ErrDisabled: an operator has disabled the resource. See [DisabledError].
	ErrDisabled = store.ErrDisabled
	// ErrUnsupported: an item uses a feature of a peer that this version does not
	// evaluate. See [UnsupportedError].
	ErrUnsupported = store.ErrUnsupported
	// ErrIncomplete: a change was made, but not every item that it concerns has
	// followed. See [IncompleteError].
	ErrIncomplete = store.ErrIncomplete
	// ErrCorrupt: a stored item cannot be decoded. See [CorruptError].
	ErrCorrupt = store.ErrCorrupt
	// ErrIncompatible: the table asks for another version of this library.
	ErrIncompatible = store.ErrIncompatible
)

// milli is the number of millitokens in a token.
const milli = store.Milli

// A LimitOption changes a limit made by one of the constructors.
type LimitOption func(*Limit)

// Burst sets the capacity apart from the rate. The bucket holds at most this many
// tokens, and a burst may take all of them at once.
func Burst(tokens int64) LimitOption {
	return func(l *Limit) { l.Capacity = tokens }
}

// PerSecond is a limit of rate tokens a second.
func PerSecond(name string, rate int64, opts ...LimitOption) Limit {
	return Custom(name, rate, time.Second, opts...)
}

// PerMinute is a limit of rate tokens a minute.
func PerMinute(name string, rate int64, opts ...LimitOption) Limit {
	return Custom(name, rate, time.Minute, opts...)
}

// PerHour is a limit of rate tokens an hour.
func PerHour(name string, rate int64, opts ...LimitOption) Limit {
	return Custom(name, rate, time.Hour, opts...)
}

// PerDay is a limit of rate tokens every 24 hours.
func PerDay(name string, rate int64, opts ...LimitOption) Limit {
	return Custom(name, rate, 24*time.Hour, opts...)
}

// Quota is a limit of amount tokens for each period of a calendar: when a period begins, the
// quota is renewed as a whole, and it earns nothing until the next one. See [ParseRenewal].
func Quota(name string, amount int64, renews *Renewal, opts ...LimitOption) Limit {
	return with(Limit{Name: name, Capacity: amount, Renews: renews}, opts)
}

// ParseRenewal reads when a quota renews, in the time zone of an IANA name; "" is UTC. One or
// several of these, separated by ";":
//
//	day                    at midnight
//	week from monday
//	month                  on its first day
//	month from day 31      on its last day, where it is shorter
//	month from last day
//	year from 29 february  on the 28th in other years
//	0 9 * * mon            five fields of cron
//
// All but the last may end in a time: "day at 06:30". The error is a [*ValidationError].
func ParseRenewal(text, zone string) (*Renewal, error) { return store.ParseRenewal(text, zone) }

// Soft makes a limit count, and never refuse. See [Limit.Soft].
func Soft() LimitOption { return func(l *Limit) { l.Soft = true } }

// InShadow makes a limit count and say what it would refuse, and refuse nobody: for a percentage of
// entities from 1 to 100, which are always the same ones. The others are refused as by any limit.
// See [Limit.Mode].
func InShadow(percent int) LimitOption {
	return func(l *Limit) { l.Mode, l.Percent = Shadow, percent }
}

// SwitchedOff makes a limit refuse nobody, and say nothing; usage still counts what requests take of
// it. See [Limit.Mode].
func SwitchedOff() LimitOption { return func(l *Limit) { l.Mode = Off } }

// Rollover makes a quota take what is left of a period into the next one, up to a maximum. See
// [Limit.Carries].
func Rollover(most int64) LimitOption { return func(l *Limit) { l.Carries.Rollover = most } }

// CarryDebt makes a quota take a debt into the next period. See [Limit.Carries].
func CarryDebt() LimitOption { return func(l *Limit) { l.Carries.Debt = true } }

// Varies gives a limit other parameters at the times of a schedule. See [ParseSchedule].
func Varies(schedule *Schedule) LimitOption {
	return func(l *Limit) { l.Varies = schedule }
}

// ParseSchedule reads when a limit has other parameters, and which, in the time zone of an IANA
// name; "" is UTC. An entry is five fields of cron, and what holds in the minutes that they
// match: a factor of the capacity and of the amount, or parameters in place of the limit's own.
// Several are separated by ";", and of those that match a minute the first one holds:
//
//	0-59 9-16 * * mon-fri x0.5
//	0-59 22-23,0-5 * * * capacity=1000 amount=1000
//	0-59 * 24-26 12 * seconds=3600
//
// The error is a [*ValidationError].
func ParseSchedule(text, zone string) (*Schedule, error) { return store.ParseSchedule(text, zone) }

// Custom is a limit of amount tokens every period. The period is a whole number of
// seconds.
func Custom(name string, amount int64, period time.Duration, opts ...LimitOption) Limit {
	return with(Limit{Name: name, Capacity: amount, Amount: amount, Period: period}, opts)
}

// with is a limit with options.
func with(l Limit, opts []LimitOption) Limit {
	for _, opt := range opts {
		opt(&l)
	}
	return l
}

// Slots is a limit of how many requests run at a time: together they hold at most n slots. The
// slots of a request come back as its lease is committed or rolled back, and within about 20
// seconds if its process dies (ADR 055).
func Slots(name string, n int64) SlotLimit { return SlotLimit{Name: name, Slots: n} }

// Returning makes a percentage, from 0 to 100, of what a lease took of the limit go back if the process that
// holds the lease is lost. See [Limit.Returns].
func Returning(percent int) LimitOption { return func(l *Limit) { l.Returns = percent } }
