// Package stack operates the CloudFormation stack of a limiter. It plans a change as a
// change set, executes it, follows it, lists stacks and deletes them. With [Options.Type]
// it does the same for the stack that load tests of a limiter run in, which has no table
// and no data.
//
// Use [Manager.Deploy] to bring a stack to a template and its code, and [Manager.Plan] with
// [Manager.Execute] for one change set. Only [Manager.Plan], [Manager.Execute],
// [Manager.Deploy], [Manager.Discard] and [Manager.Delete] change anything.
//
// # What races with what
//
// CloudFormation runs one operation on a stack at a time. This package relies on that, and
// on change sets that only their maker executes:
//
//   - Two deployers at once. Both may plan. The execution of one change set makes the other
//     obsolete, so the later [Manager.Execute] fails with [ErrStale] and changes nothing.
//     A plan made while an operation runs fails with [ErrBusy].
//   - A stack created between the look and the change set. [Manager.Plan] looks again, once.
//   - A lost answer to CreateChangeSet: the name and the token belong to this call alone, so
//     the SDK repeats it safely. A lost answer to ExecuteChangeSet: the change set itself
//     says whether it was executed.
//   - A crash between the phases of a first deployment. The stack stands without functions.
//     The next [Manager.Deploy] finds it, uploads the code if it is missing, and continues.
//   - A caller who stops waiting. The operation continues in CloudFormation; the error is an
//     [*InterruptedError], which says how to follow it.
//   - A declined creation beside another deployer. [Manager.Discard] deletes the empty stack
//     only if no other change set is in it. A deployer who makes and executes a change set
//     between these two requests loses the creation and must deploy again.
package stack
