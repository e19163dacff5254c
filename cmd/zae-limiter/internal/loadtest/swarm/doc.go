// Package swarm runs load tests on the workers of a Locust master, through the master's web
// page. It waits for workers, starts users, measures while all of them run, stops them, and
// reads the master's statistics. It knows nothing of limits: the workers carry out the load.
//
// # What races with what
//
//   - The page is old: Locust keeps an answer for two seconds. A look after the start may
//     still show a stopped test. So a stopped test is the end of a run only once the run has
//     been seen, or after [startUp].
//   - A worker's reports and the reset after the ramp. Workers report every three seconds, so
//     requests of the ramp arrive after the reset, and those at the end arrive after the stop.
//     The total has them all. The rate is that of the last look before the stop, which lacks
//     about as many requests at its end as it has too many at its beginning.
//   - Two people and one master. Locust takes the second start as a change of the first. A
//     master with a running test is therefore refused. Two starts at one instant are not seen
//     then; the least and the greatest number of users tell of them afterwards.
//   - The end of the caller's context and the users. The users are stopped all the same,
//     within [stopTimeout]. If the master does not answer then, the error says that they run.
//   - A worker that is replaced, and the number of users. It may be too low for some seconds.
package swarm
