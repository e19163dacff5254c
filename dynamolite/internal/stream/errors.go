package stream

import "errors"

var (
	// ErrTrimmed is for a reader that stands before records that are gone: it missed some. It can
	// continue at the oldest record of a listed shard.
	ErrTrimmed = errors.New("stream: records after this position have been trimmed; start again at the trim horizon")

	// ErrExpiredIterator is for an iterator older than [IteratorLifetime]. Its reader needs a new
	// one.
	ErrExpiredIterator = errors.New("stream: the iterator has expired; get a new one after the last position read")

	// ErrBadIterator is for a token that [Iterator.String] has not made.
	ErrBadIterator = errors.New("stream: not an iterator of this database")

	// ErrNoShard is for the id of a shard that does not exist, or no longer exists.
	ErrNoShard = errors.New("stream: no such shard; list the shards again")

	// ErrOutsideShard is for a position that the shard cannot hold.
	ErrOutsideShard = errors.New("stream: the position is outside the shard's range")

	// ErrFuture is for an instant in the future.
	ErrFuture = errors.New("stream: the instant to start from is in the future")

	// ErrBadState is for a saved state that no stream can have been in.
	ErrBadState = errors.New("stream: the saved state is damaged")
)
