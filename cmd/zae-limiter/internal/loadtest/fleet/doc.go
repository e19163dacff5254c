// Package fleet keeps a load test of Locust supplied with workers that live for minutes, as
// functions of AWS Lambda do. It decides how many workers the users need, starts them, and
// replaces each before its time is over. It knows nothing of limits and nothing of AWS.
//
// An [Orchestrator] asks the master which workers it has, and has each missing one started
// with a [Job]. [Fleet] decides; it has no clock and no I/O. The orchestrator is itself a
// function: each call runs for minutes, and the next call continues.
//
// # A worker and its replacement
//
// A worker knows from its job until when it works. It is replaced as follows:
//
//	until − [Handover]  the orchestrator no longer counts the worker, so it starts another one
//	+ some seconds      the other one is ready; the master gives it users
//	until               the worker stops its users, sends its last statistics, says that it has
//	                    stopped, and ends; the master gives its users to the others
//
// The master adds up statistics as they arrive and keeps those of workers that have left. So
// nothing is lost if the last statistics arrive before the message that the worker has
// stopped. The order on one connection ensures that.
//
// Workers would all end at once if they all started at once. Their ends therefore lie on
// a grid, with few on each of its instants. No two instants lie within one Handover, so the
// replacements of one instant are over before those of the next begin. [Options.Overlap] is
// the number of ends on one instant, and the number of workers above [Options.Max] that can
// exist during a replacement.
//
// # What races with what
//
//   - A start that is lost, and one that is only slow. A worker that has not connected at
//     Job.ConnectBy ends by itself. From then on the orchestrator counts it as lost and starts
//     another. Both read their own clocks; those of AWS agree within milliseconds.
//   - An orchestrator that ends, and starts that are under way. It starts nothing in the last
//     [Startup] of its time, so its successor sees all workers at the master. An orchestrator
//     that crashes leaves starts that its successor does not know. Then there are more
//     workers than needed. The concurrency that is reserved for the function bounds them.
//   - The gap between two orchestrators and a replacement. The gap is at most Startup, one
//     period of the schedule, and one Poll. A worker that was to be replaced right after the
//     last look gets its replacement at the end of the gap. So the gap and the Startup of the
//     replacement are together at most Handover. A replacement that is late all the same
//     leaves fewer workers for some seconds: the master gives the users to the others. If the
//     last worker leaves first, Locust ends the test.
//   - The end of a worker and the end of its function. [Margin] lies between them. What the
//     worker has not sent by then is lost, at most the statistics of the last 3 s.
//   - A worker's last message and a ramp of the master. Locust removes the worker from the
//     ramp and continues it with the others.
//   - A worker that joins during a ramp. Locust adds it to the ramp. After a ramp, it gives
//     users to a new worker only with --enable-rebalancing, which the master has.
//   - A restart of the master. It forgets workers and statistics, and the workers connect
//     again. For [Silence] the orchestrator counts a worker that the master no longer shows.
//   - Two masters. Workers and statistics would be divided among them. The service of the
//     master therefore ends the old task before it starts a new one.
package fleet
