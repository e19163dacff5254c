// Package loadstack describes the stack that load tests of a limiter run in on AWS: one
// CloudFormation template with its parameters and tags. The package sends nothing;
// deploy/stack and the command line do.
//
// The stack of the limiter NAME is called NAME-load. It has no data.
//
//	operator ── Session Manager ──▶ master, one task on Fargate: Locust with its web page
//	                                  ▲ 8089         ▲ 5557
//	EventBridge ─▶ orchestrator ──────┘              │
//	  each minute    └─ invokes ─▶ workers on Lambda ┴─▶ table of the limiter
//	                               workers on Fargate
//
// The master is Locust's own image. It gets its locustfile from a parameter, and shows its
// web page only to a port that Session Manager forwards: no rule of a network admits a
// connection to it. Orchestrator and workers are this program, the zip that the functions of
// the limiter's stack run, too. Workers on Fargate need an image of the program. How workers
// are started and replaced, and what races with what, is in package loadtest/fleet.
//
// The role of the workers has one namespace of the table. It acquires, and sets up entities
// and limits there. It deletes nothing, and does not read other namespaces. The master has
// no access to the table.
//
// The parameters that concern the limiter are those of its stack: see [Options.Adopt]. The
// stack refers to no export of that stack, because CloudFormation does not delete a stack
// whose exports are in use.
package loadstack
