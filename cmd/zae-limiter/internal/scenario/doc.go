// Package scenario describes a load on a limiter: which entities and resources there are,
// which limits they have, who calls what, and when. A [Scenario] is a file in YAML that
// people read, copy and change. This package reads such files, has the scenarios of the
// program, and computes from a scenario each of its operations.
//
// # Operations
//
// A scenario has classes. Each is a stream of operations, or a number of users that each
// send one operation after another. Operation n of a class is the same in every run with
// the same seed, whatever the order in which the clients carry them out.
package scenario
