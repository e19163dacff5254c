// Package benchmarks holds the limiter against what it is made of: an acquire
// against the one write it sends, through the same client; ten limits against
// one; the bucket's arithmetic against golang.org/x/time/rate. It is a module of
// its own so that nobody who imports the limiter inherits what it measures with.
//
// The benchmarks print times, which depend on the machine. TestRatios asserts
// ratios, which hardly do: see its comment. TestEngine… and TestStorage… are the
// embedded engine's: see docs/engine-performance.md. With the build tag conformance both
// run against DynamoDB Local too, which must be installed.
package benchmarks
