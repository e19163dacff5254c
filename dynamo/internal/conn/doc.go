// Package conn sends requests to one table of DynamoDB, for the packages below dynamo.
// [Conn] bounds the time of requests, repeats them where that is harmless and turns
// their errors into those of package store. [Clock] learns the server's time from the
// dates of answers (ADR 023).
package conn
