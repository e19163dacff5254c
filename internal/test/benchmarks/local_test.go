//go:build !conformance

package benchmarks_test

// local is DynamoDB Local; to start it, use the build tag conformance.
var local = engine{name: "DynamoDB Local"}
