// Package manifest keeps the limits of a namespace in a file. [Parse] reads the file,
// [Manager.Plan] compares it with the table, and [Manager.Apply] makes the table like
// the file. It reads the manifests of the Python peer.
//
// # Ownership
//
// A manifest has a name, and the table keeps a record of the levels that the manifest
// of a name owns. A manifest changes only levels that it declares, and deletes only
// levels that it owns. A level belongs to at most one manifest (ADR 034).
//
// # What races with what
//
// The record is written twice in an apply: before the first level changes, and after
// the last. The first write takes a hold on the manifest, and marks each level that is
// to change as pending. The second write replaces the marks by digests of what was set.
//
//		record   [hold, A B C pending] ───────────────────────────── [A B done, C pending]
//		levels                          set A · set B · set C fails
//
//	  - A crash at any point leaves pending marks. The next plan compares these levels with
//	    the table, whatever the file said before, and sets a pending level again even if it
//	    is equal, because its buckets may not follow yet.
//	  - Two appliers of one manifest: the second finds the hold and changes nothing. The
//	    hold of a crashed applier ends after two minutes. An applier that lost its hold stops
//	    before its next transaction. One transaction that was under way may still land; the
//	    next plan shows its levels as changed by hand.
//	  - Appliers of two manifests: one version counts the changes of all records of a
//	    namespace, and each record is written on condition of the version as read. So the
//	    second to claim a level sees the claim of the first, and leaves the level alone.
//	  - An operator with set-limits: each level changes in a transaction with its own
//	    condition. The last writer wins, and the next plan shows the difference.
//	  - An operator with a switch or a cascade policy: it stays, unless the file declares one. One
//	    that the manifest has set, and declares no longer, is removed if the plan found it as it was
//	    set. One that an operator changes between that plan and the removal is removed, too.
//	  - A crash between a policy and its buckets leaves the level pending, with the policies that
//	    are to be removed. The next apply sets or removes them again, which marks the buckets.
//	  - An operator with set-parent: the last writer wins, and the next plan shows the difference.
//	    A parent that the file does not declare stays. A crash between a record and its buckets
//	    leaves the record pending. The next apply moves the entity to where it is, which marks them.
//	  - An operator with entity create or delete: the apply of that entity and of those below it
//	    fails, and the next one settles it. A child that begins to cascade to an entity meanwhile is
//	    the race that ADR 049 leaves.
//	  - A deletion of the namespace: an apply fails before it writes if the name no longer
//	    leads to the namespace of the plan. An apply that has begun continues, as any client
//	    does that has resolved the name.
//	  - A lost answer counts as a failure. The level stays pending, and the next apply
//	    settles it.
package manifest
