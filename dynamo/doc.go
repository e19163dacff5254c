// Package dynamo keeps a limiter's buckets and configuration in a DynamoDB
// table, on the wire format of the Python peer (see internal/schema), and
// administers it. [Open] is the way in; [CreateTable] makes a table for local
// use, [Namespaces] registers what Open resolves, and [Meter] tells what it all
// costs.
//
// # Who writes what
//
// Every write below is one request. "seen" is what the writer last read; a
// condition that fails changes nothing.
//
//	bucket item (BUCKET#… #STATE)
//	Take     ADD tk, tc, wcu             if tk and wcu suffice, nothing of tk has overflowed, by cp, ra, rp as
//	                                     seen; not expired (ttl), lapsed (vu) or disabled
//	Refill   SET rf, cp, ra, rp, ttl,    if rf, vu, shard_count and disabled are as seen, and tk
//	         shard_count, cascade,       lies within bounds that lose no accrual; or, if it is loose, rf is
//	         parent_id, pgen, pinc;      not after the new one instead; or, of a bucket that is full
//	         REMOVE vu, ttl, or a        anyway, rf is old enough and cp, ra, rp are as seen. rf moves
//	         limit; ADD or SET tk, wcu;  back only from far ahead of the clock
//	         ADD tc                      one that changes limits or the owner: cp, ra, rp of every limit,
//	                                     and cascade, parent_id, pgen, pinc if it sets them, are as seen
//	Gather   the same on several items   the same, of all of them (one transaction)
//	Create   everything                  if there is no item
//	Bear     everything; on the donor    if there is no item; on the donor as Refill; without a donor, if
//	         as Refill                   there is no sibling and shard_count of shard 0, unless it is the
//	                                     one born, is the one born with (one transaction)
//	Merge    on the survivor as Refill;  on the survivor as Refill; on the retired, if rf, shard_count,
//	         deletes the retired         cp, ra, rp are as seen, not disabled, no vu, and tk lies within
//	                                     bounds (one transaction)
//	Adjust   ADD tk, tc, wcu             if tk lies within bounds, by cp, ra, rp, shard_count as seen; for
//	                                     a credit, a peer's vu is as seen too
//	DeleteEntity                         deletes it
//
//	entity record (ENTITY#… #META)
//	CreateEntity  everything             if there is no item, and the parent has one
//	DeleteEntity                         deletes it, last, if it exists
//
//	configuration (#CONFIG, #CONFIG#…) with its registry, in one transaction
//	SetAudit-     audit_retention_days   if it is as seen
//	Retention
//	SetLimits,    l_…, on_unavailable;   if what operators set there (disabled, cascade,
//	SetSystem     keeps the rest         audit_retention_days) is as seen; where there is none, if there
//	                                     still is none; nothing is written if that is what there is.
//	                                     Of an entity: then a Refill of every shard of its buckets
//	DeleteLimits  the same, or deletes   the same
//	DeleteEntity  deletes it             if it exists
//
//	registries (SYSTEM# #RESOURCES, #ENTITY_CONFIG_RESOURCES)
//	with a level  ADD or DELETE a name;  with the level's own condition
//	              ADD a count ±1
//	afterwards    REMOVE a count         if it is 0 or less
//
//	usage snapshot (ENTITY#… #USAGE#…)
//	AddUsage      SET what it is of,     if seq# of each shard is before the first step, or there is none
//	              ttl, seq#…; ADD
//	              total_events, counters
//	DeleteEntity  deletes it
//
//	namespace records (_/SYSTEM# #NAMESPACE#…, #NSID#…)
//	Register      both                   if there is neither (one transaction)
//	Delete        deletes the name, SET  if the name still leads to the id seen (one transaction)
//	              status, deleted_at
//
//	audit events (AUDIT#… #AUDIT#…)
//	all the above everything             in the transaction of the change; DeleteEntity with the record,
//	but buckets                          and with each configuration
//
//	checkpoints (_/STREAM#… #SHARD#…)
//	Follower      everything             always: the last of two readers counts
//
//	version record (_/SYSTEM# #VERSION)
//	CreateTable   everything             if there is none
//
// Attributes of a bucket item that no line names (soft, bypass, schedules, quota
// windows) belong to peers and are never written, but that a limit which is
// removed goes with all that it has.
package dynamo
