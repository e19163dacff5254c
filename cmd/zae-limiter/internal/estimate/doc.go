// Package estimate works out what a load on a limiter costs: capacity units, requests,
// the aggregator's function, storage, and a month's bill.
//
// [Scenario] carries out a scenario in virtual time, with limiters on the embedded engine, and
// says what a run of it costs.
//
// [New] validates a [Load] and works out its [Estimate]. Tests hold the units against the
// ledger of the embedded engine. docs/measurements/estimate.md has the formulas, and says which are
// held and how closely.
package estimate
