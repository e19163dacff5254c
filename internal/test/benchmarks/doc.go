// Package benchmarks compares the limiter with its parts: an acquire with the one write it
// sends, through the same client; ten limits with one; the bucket's arithmetic with
// golang.org/x/time/rate. It is a separate module, so that importers of the limiter do not
// inherit its dependencies.
//
// The benchmarks print times, which depend on the machine. TestRatios checks ratios, which
// hardly depend on it: see its comment. TestEngine… and TestStorage… measure the embedded
// engine: see docs/measurements/engine.md. With the build tag conformance both also run
// against DynamoDB Local, which must be installed.
package benchmarks
