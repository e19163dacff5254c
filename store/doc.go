// Package store is the contract between limiters and stores.
//
// A limiter decides, and a store carries out one conditional write and hands back the
// item that it met. [Store] is the interface, [Image] is a bucket item as a store last
// saw it, and [Take], [Refill], [Create], [Adjust], [Birth] and [Pair] are the writes.
// Package dynamo implements it on DynamoDB. Package storetest holds the suite that every
// implementation passes.
//
// Users of a limiter need little of it: package limiter has names for that.
package store
