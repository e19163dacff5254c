// Package httpapi is the decision service over HTTP and JSON: it decodes calls, has package decide
// answer them, and encodes the answers. A refusal is a problem of RFC 9457 that has the status of
// every limit. openapi.json describes the interface; a test makes it of the types and of [Routes].
//
// The service keeps nothing between two calls. What a call took is final: an answer that is lost
// leaves the tokens taken. Only if the client has gone by the time of the decision do they go back.
package httpapi
