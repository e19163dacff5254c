//go:build !conformance

package benchmarks_test

// local is DynamoDB Local; starting it takes the build tag conformance.
var local = engine{name: "DynamoDB Local"}
