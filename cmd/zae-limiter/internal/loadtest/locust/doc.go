// Package locust is a worker of a load test with Locust (https://locust.io). A master of
// Locust, which is a program in Python, says how many users of each class there are. The
// worker runs them and reports what they did. It speaks the protocol of Locust 2.
//
// The package knows nothing of limiters: a [Load] says what users do.
//
// # The protocol
//
// The worker connects to the master with a DEALER socket of ZeroMQ. Each message is an array
// in MessagePack: its type, its data, and the ID of the worker.
//
//	worker                               master
//	  ├── client_ready ────────────────────▶│  every 5 s, until
//	  │◀───────────────────── ack {index} ──┤
//	  ├── heartbeat {state, CPU, memory} ──▶│  every second
//	  │◀──────────────────────── heartbeat ─┤
//	  │◀─────────── spawn {users of class} ─┤  at each step of a ramp, in absolute numbers
//	  ├── spawning, spawning_complete ─────▶│
//	  ├── stats {requests, errors, users} ─▶│  every 3 s
//	  │◀───────────────────────────── stop ─┤
//	  ├── stats, client_stopped ───────────▶│
//	  ├── client_ready ────────────────────▶│
//	  │◀───────────────────────────── quit ─┤
//	  └── stats ───────────────────────────▶│
//
// # A master that goes away
//
// The master answers each heartbeat of a worker that it knows. When a connection is lost,
// the users go on, and what they did is reported on the next connection. If no answer comes
// on that connection within 5 s, the master is a new one. The same holds for a master that
// is silent for a minute. The worker then stops its users, forgets what it has not reported,
// and announces itself under a new ID. It gives up after five minutes without a master. A
// worker of Locust itself ends after a minute without one.
package locust
