// Package store is the contract between limiters and stores (ADR 031).
//
// A limiter decides. A store carries out one conditional write and returns the item as
// the write left it or found it. [Store] is the interface, [Image] is a bucket item as
// a store last answered it, and [Take], [Refill], [Create], [Adjust], [Birth] and
// [Pair] are the writes. Package dynamo implements the interface on DynamoDB. Package
// storetest holds the suite that every implementation passes.
//
// Users of a limiter need only a part of this package. Package limiter has aliases for
// that part.
package store
