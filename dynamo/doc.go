// Package dynamo keeps a limiter's buckets and configuration in a DynamoDB table, with the
// wire format of the Python peer (see internal/schema). Begin with [Open]. [CreateTable]
// makes a table for local use, and [Meter] counts the cost of requests. Package
// dynamo/admin registers the namespaces that Open resolves.
//
// # Writers and conditions
//
// Every write below is one request. "as seen" means as the writer last read it. A
// failed condition changes nothing.
//
//	bucket item (BUCKET#… #STATE)
//	Take     ADD tk, tc, wcu             if wcu and tk suffice, or instead of tk the stamp of a soft limit
//	                                     has not passed; no tk has overflowed; cp, ra, rp, vu, shard_count
//	                                     are as seen, where the caller knows them; rf is not before an
//	                                     instant, if given; not expired (ttl), lapsed (vu) or disabled.
//	                                     Under bypass: ADD tc, wcu, if bypass is after now
//	Refill   SET rf, cp, ra, rp, ttl,    if rf, vu, shard_count and disabled are as seen, and tk
//	         rsched, sched, soft,        lies within bounds that lose no accrual. Loose: rf is not after
//	         shard_count, cascade,       the new one, instead of as seen. Full bucket: rf is old enough
//	         parent_id, pgen, pinc;      and cp, ra, rp are as seen. rf moves back only from far ahead
//	         REMOVE vu, ttl, soft, or a  of the clock. Changed limits or owner: cp, ra, rp of every
//	         limit; ADD or SET tk, wcu;  limit are as seen, and so are cascade, parent_id, pgen, pinc if
//	         ADD tc                      the refill sets them, or doubles. Otherwise a stamp soft is set
//	                                     only if there is one
//	Gather   as Refill, several items    as Refill, for all items (one transaction)
//	Reset-,  as Refill, all shards; ADD  as Refill, for all shards, and if there is no record of the key, or
//	TopUp-   rn; ADD or SET tu           one of an earlier entity (one transaction)
//	Bucket
//	Create   everything                  if there is no item
//	Bear     everything; on the donor    if there is no item; on the donor as Refill. Without a donor: if
//	         as Refill                   there is no sibling, and shard 0, unless it is born itself, has
//	                                     the shard_count of the new shard (one transaction)
//	Merge    on the survivor as Refill;  on the survivor as Refill; on the retired, if rf, shard_count,
//	         deletes the retired         cp, ra, rp are as seen, not disabled, no vu, and tk lies within
//	                                     bounds (one transaction)
//	Adjust   ADD tk, tc, wcu             if tk lies within bounds. A debit: cp, ra, rp, shard_count are as
//	                                     seen, or cp exists if a peer's features hide the parameters. A
//	                                     credit: cp and shard_count are as seen. Both: vu is as seen, but
//	                                     for a debit where a peer's features hide it
//	usage:        REMOVE do              if dh and do are as the stream showed them
//	Forget
//	SetSwitch    SET disabled,           if there is an item
//	             disabled_until, or
//	             bypass; REMOVE the
//	             others
//	SetParent,   SET cascade, parent_id, if there is an item, and its pinc is another one, or its pgen is
//	SetCascade   pgen, pinc; or REMOVE   not higher
//	DeleteEntity                         deletes it
//
//	entity record (ENTITY#… #META)
//	CreateEntity  everything             if there is no item, and the parent has a record, which
//	                                     does not cascade if the new one does
//	SetParent     parent_id, pgen + 1    if it is as seen, and so are the records of the parent and of its
//	                                     ancestors (one transaction). Then stamps the entity's buckets
//	DeleteEntity                         deletes it, last, if it exists
//
//	configuration (#CONFIG, #CONFIG#…) with its registry, in one transaction
//	SetAudit-     audit_retention_days   if it is as seen
//	Retention
//	SetLimits,    l_…, on_unavailable;   if the operator's settings (disabled, disabled_until, cascade, slots,
//	SetSystem     keeps the rest         audit_retention_days) are as seen; for a new item, if there is
//	                                     still none. An unchanged item is not written. Limits of an
//	                                     entity: then a Refill of every shard of its buckets
//	DeleteLimits  the same, or deletes   the same
//	RaiseLimits   l_…_sched of limits    the same, and so are those limits
//	SetLevels,    the same for up to 49  the same, for each of them (one transaction). Without limits:
//	DeleteLevels  levels                 SET on_unavailable, always
//	SetSwitch     disabled,              if the operator's settings are as seen; for a new item, if there
//	              disabled_until         is still none. Then marks the level's buckets
//	SetSlots      slots                  the same
//	SetCascade    cascade                the same; then stamps the level's buckets
//	DeleteEntity  deletes it             if it exists
//
//	registries (SYSTEM# #RESOURCES, #ENTITY_CONFIG_RESOURCES)
//	with a level  ADD or DELETE a name;  with the level's own condition
//	              ADD a count ±1
//	afterwards    REMOVE a count         if it is 0 or less
//
//	page of usage (USAGE#{resource}#… {month}#…)
//	usage: Save   everything             the same hours of an item are the same page
//
//	deletion of an entity's usage (USAGE##{entity} deleted)
//	DeleteEntity  everything             nothing; usage: Save reads it before it writes a page
//
//	months with pages (USAGE# {month})
//	usage: Save   ADD a resource; SET    nothing
//	              ttl
//
//	usage snapshot of earlier versions and of the peer (ENTITY#… #USAGE#…)
//	DeleteEntity  deletes it
//	usage:        everything             if there is none, or ours from an earlier reading
//	SaveDay
//
//	records of manifests (SYSTEM# #PROVISIONER…)
//	Change-       everything; ADD 1 to   if the version of all records is as seen, and the peer has not
//	Manifest      their version          applied the record since (one transaction)
//	HoldManifest  SET held_until         if the holder is as given
//
//	namespace records (_/SYSTEM# #NAMESPACE#…, #NSID#…)
//	Register      both                   if there is neither (one transaction)
//	Delete        deletes the name, SET  if the name still leads to the id seen (one transaction)
//	              status, deleted_at
//
//	slots (BUCKET#…#0 #SLOTS#…)
//	Hold          SET or REMOVE an       if the entry is as seen, the dead ones are there, those of leases
//	              entry, ttl; REMOVE     are not, and used leaves room, if the write raises it
//	              dead ones; SET those
//	              of leases; ADD used
//	DeleteEntity                         deletes it
//
//	record of an operation (BUCKET#…#0 #OP#…; for SetSwitch ENTITY#… and RESOURCE#… #OP#…)
//	ResetBucket,  everything             if there is none, or one of an earlier entity
//	TopUpBucket,
//	SetSwitch
//	DeleteEntity                         deletes it
//
//	record of a settlement (BUCKET#… #SETTLED#…)
//	SettleOnce    everything             if there is none (one transaction with Adjust and Refill of bucket
//	                                     items)
//
//	audit events (AUDIT#… #AUDIT#…)
//	every change  everything             in the transaction of the change; DeleteEntity with the record,
//	above, except                        and with each configuration
//	to buckets and
//	usage, and
//	ResetBucket,
//	TopUpBucket
//
//	checkpoints (_/STREAM#… #SHARD#…)
//	Follower      everything             always: the last writer wins
//
//	version record (_/SYSTEM# #VERSION)
//	CreateTable   everything             if there is none
//	CreateTable   index_partitions       if the record is as it was read
//	Raise-        versions,              if the record is as it was read
//	Versions      index_partitions
//	TopUpBucket,  client_min_version     if the record is as it was read
//	SetParent,
//	SetCascade,
//	a soft limit
//
// Takes, refills and adjustments change q, o and qn under the conditions of ADR 060 and ADR 071.
// Refills set soft and bypass, too, under the conditions of ADR 050 and ADR 052. Attributes of
// a bucket item that no line names (wtc) belong to peers. They are never written,
// except that removing a limit removes all its attributes.
package dynamo
