// Package faults observes and disturbs what a store sends to its table, for tests.
//
// [Wrap] puts hooks between a store and a [dynamo.API]. Every request passes the hooks in
// their order, then the API, and its answer comes back through them in reverse. A hook
// may delay a request, record it, change it, answer it itself, or fail it:
//
//	seen, gate := &faults.Recorder{}, faults.NewGate()
//	api := faults.Wrap(engine,
//		seen.Record,
//		faults.On(faults.Latency(5*time.Millisecond), faults.UpdateItem),
//		gate.Answers,
//	)
//
// A test writes its own [Hook] for what only that test needs. A [Slot] is a hook that the
// test replaces while requests are under way.
//
// All hooks use real timers and channels, so they work in a testing/synctest bubble. Make
// a [Gate] inside the bubble. A wrapped API never says that it answers at once, even if
// the API behind it does: for a store it is a remote table.
package faults
