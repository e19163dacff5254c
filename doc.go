// Package limiter decides requests against token buckets that many processes
// share through a [Store], DynamoDB for instance.
package limiter
