// Package cfntest is a strict CloudFormation in memory, for tests. It parses real templates,
// resolves parameters, conditions and functions, computes change sets and runs operations
// with events. It also has the parts of S3, Lambda, ECS and the tagging API that deployments call:
// for instance, a stack can be deleted only if its buckets are empty.
//
// It refuses what AWS refuses, with AWS's error codes and texts. Its rules come from public
// documents of CloudFormation:
//
//   - the API reference: errors, states, change sets;
//   - the user guide: imports of existing resources, UsePreviousValue, DeletionPolicy and RetainExceptOnCreate, exports, quotas;
//   - the lines "Update requires" of the resource reference: which change replaces a resource.
//
// Nobody has compared it with a real account.
//
// What it does not model: parallel changes of resources (it changes one after the other),
// permissions, drift, nested stacks, stack sets, transforms and macros. It imports tables, buckets and
// their policies. A template
// that uses an intrinsic function which is not modelled is refused, not guessed.
//
// Operations progress with the clock of [Options.Now]: each resource takes [Options.Step]. A
// [Cloud] starts no goroutine; a call first does what was due before it.
package cfntest
