package limiter

import "github.com/zeroae/zae-limiter-go/store"

// The parts of the contract between limiters and stores that users name. Package store
// documents them.
type (
	// A Store keeps buckets and configuration.
	Store = store.Store
	// A Bucket names one shard of what an entity may consume of a resource.
	Bucket = store.Bucket
	// A Limit is a token bucket's configuration.
	Limit = store.Limit
	// An Entity consumes; it may have a parent and cascade to it.
	Entity = store.Entity
	// A Config is what one level of configuration sets.
	Config = store.Config
	// A ConfigKey names a level of configuration.
	ConfigKey = store.ConfigKey
	// OnUnavailable is what an acquire does when the store cannot be reached.
	OnUnavailable = store.OnUnavailable
)

// Bounds of a limit's parameters and of an amount in a request.
const (
	// MaxTokens is the largest capacity, refill amount or requested amount, in tokens.
	MaxTokens = store.MaxTokens
	// MaxPeriod is the longest refill period.
	MaxPeriod = store.MaxPeriod
	// MaxLimits is how many limits a bucket, a level of configuration or a request has
	// at most.
	MaxLimits = store.MaxLimits
	// DefaultResource stands for every resource that a level of configuration does not
	// name.
	DefaultResource = store.DefaultResource
)

// The values of [OnUnavailable].
const (
	// Block returns [ErrUnavailable]. It is the default.
	Block = store.Block
	// Allow returns a degraded lease: the work goes on, unmetered.
	Allow = store.Allow
)

// Errors with data. Each answers errors.Is to the condition of the same name.
type (
	// A ValidationError names an argument that cannot be accepted and what to do about it.
	ValidationError = store.ValidationError
	// A NotFoundError names a table, namespace or entity that does not exist.
	NotFoundError = store.NotFoundError
	// An ExistsError names what exists already.
	ExistsError = store.ExistsError
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
	// ErrInvalid: an argument cannot be accepted. See [ValidationError].
	ErrInvalid = store.ErrInvalid
	// ErrUnavailable: the store could not be reached or did not answer in time; what was
	// asked of it may or may not have happened. Throttling is ErrUnavailable too.
	ErrUnavailable = store.ErrUnavailable
	// ErrThrottled: the store turned the request away for its rate; nothing was applied.
	ErrThrottled = store.ErrThrottled
	// ErrHotPartition: the store turned the request away because of the rate at the one
	// partition that holds the item. It is always ErrThrottled too.
	ErrHotPartition = store.ErrHotPartition
	// ErrConflict: another writer kept getting in between; nothing was applied.
	ErrConflict = store.ErrConflict
	// ErrAccessDenied: the credentials are missing, expired or may not do this.
	ErrAccessDenied = store.ErrAccessDenied
	// ErrNotFound: the table, namespace or entity does not exist. See [NotFoundError].
	ErrNotFound = store.ErrNotFound
	// ErrExists: it exists already. See [ExistsError].
	ErrExists = store.ErrExists
	// ErrDisabled: an operator has disabled the resource. See [DisabledError].
	ErrDisabled = store.ErrDisabled
	// ErrUnsupported: an item uses a feature of a peer that this version does not
	// evaluate. See [UnsupportedError].
	ErrUnsupported = store.ErrUnsupported
	// ErrIncomplete: a change was made, and not all of what it concerns has followed. See
	// [IncompleteError].
	ErrIncomplete = store.ErrIncomplete
	// ErrCorrupt: a stored item cannot be decoded. See [CorruptError].
	ErrCorrupt = store.ErrCorrupt
	// ErrIncompatible: the table asks for another version of this library.
	ErrIncompatible = store.ErrIncompatible
)
