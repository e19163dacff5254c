// Package bucket is the arithmetic of a token bucket: pure integers, no clock,
// no I/O. Tokens are counted in millitokens and time in milliseconds since the
// Unix epoch; every product is taken in 128 bits and every division floors.
//
// # The accrual grid
//
// Between the instants a and b a limit earns
//
//	⌊b·Amount/Period⌋ − ⌊a·Amount/Period⌋
//
// millitokens: what it earns is the number of grid lines passed, and the grid
// is fixed to the epoch, not to the last refill. The sum telescopes, so any
// sequence of refills between two instants earns the same in total. Nothing is
// lost to rounding and there is no remainder to store, however often one
// shared stamp is moved for some other limit's sake.
package bucket

// A Limit is what one shard of a bucket may hold and earn.
type Limit struct {
	Capacity int64 // millitokens, at least 1
	Amount   int64 // millitokens earned every Period; 0 earns nothing
	Period   int64 // milliseconds, at least 1
}
