// Package health reads the state of a limiter's table, functions, queue, archive and alarms,
// and judges it. It only reads, and creates nothing.
//
// [Collect] reads every part at the same time and each within its own time limit. A part that
// cannot be read has a [Problem] in its place, and hides no other part. [Report.Judge] is a
// pure function of what was read.
//
// # What races with what
//
// The parts are read at slightly different instants, so a report of a changing stack may
// combine old and new. A running operation therefore precedes other verdicts. What disappears
// between the look at the stack and the look at the part is a Problem of the kind
// [NotFound].
package health
