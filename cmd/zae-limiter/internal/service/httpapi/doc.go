// Package httpapi is the decision service over HTTP and JSON: it decodes calls, has package decide
// answer them, and encodes the answers. A refusal is a problem of RFC 9457 that has the status of
// every limit. openapi.json describes the interface; a test makes it of the types and of [Routes].
//
// The service keeps nothing between two calls. A call without a lease is final: the tokens
// stay taken if its answer is lost. They go back only if the client has gone by the time of the
// decision.
package httpapi
