package stream

import "errors"

var (
	// ErrTrimmed answers a reader who stands before records that are gone: it missed some. It can go
	// on at the oldest record of a listed shard.
	ErrTrimmed = errors.New("stream: records after this position have been trimmed; start again at the trim horizon")

	// ErrExpiredIterator answers an iterator older than [IteratorLifetime]. Its reader needs a new one.
	ErrExpiredIterator = errors.New("stream: the iterator has expired; get a new one after the last position read")

	// ErrBadIterator answers a token that [Iterator.String] has not made.
	ErrBadIterator = errors.New("stream: not an iterator of this database")

	// ErrNoShard answers the id of a shard that does not exist, or no longer.
	ErrNoShard = errors.New("stream: no such shard; list the shards again")

	// ErrOutsideShard answers a position that the shard cannot hold.
	ErrOutsideShard = errors.New("stream: the position is outside the shard's range")

	// ErrFuture answers an instant that is still to come.
	ErrFuture = errors.New("stream: the instant to start from is in the future")

	// ErrBadState answers a saved state that no stream can have been in.
	ErrBadState = errors.New("stream: the saved state is damaged")
)
