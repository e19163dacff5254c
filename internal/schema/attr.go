package schema

import "strings"

// Names of the attributes of a key, in the table and in its indexes.
const (
	PK     = "PK"
	SK     = "SK"
	GSI1PK = "GSI1PK"
	GSI1SK = "GSI1SK"
	GSI2PK = "GSI2PK"
	GSI2SK = "GSI2SK"
	GSI3PK = "GSI3PK"
	GSI3SK = "GSI3SK"
	GSI4PK = "GSI4PK"
	GSI4SK = "GSI4SK"
)

// Names of the indexes.
const (
	GSI1 = "GSI1" // parent -> children
	GSI2 = "GSI2" // resource -> buckets and usage snapshots
	GSI3 = "GSI3" // entity -> buckets; resource -> entities with limits of their own
	GSI4 = "GSI4" // namespace -> everything in it
)

// Names of the attributes that bucket items, entity records and configuration
// share.
const (
	EntityID = "entity_id"
	Resource = "resource"
	Cascade  = "cascade"   // BOOL
	ParentID = "parent_id" // S; NULL on an entity without a parent, absent on its buckets
	PGen     = "pgen"      // N, the owner's parent generation
	PInc     = "pinc"      // S, the owner's incarnation
	Disabled = "disabled"  // BOOL true on buckets; BOOL or S "bypass" on configuration
	// DisabledUntil is when Disabled ends, in milliseconds; on both. Only this library has it.
	DisabledUntil = "disabled_until"
	TTL           = "ttl"      // N, seconds since the epoch
	SchedTZ       = "sched_tz" // S
)

// Names of the attributes of a bucket item that are not a limit's.
const (
	RF         = "rf"          // N, ms: the instant up to which the balances have accrued
	Created    = "created"     // N, ms: when the item was made; unknown to the peer
	ShardCount = "shard_count" // N
	ValidUntil = "vu"          // N, ms
	InStep     = "st"          // N, ms: the item is in step if it equals rf, see [store.Image]; unknown to the peer
	Bypass     = "bypass"      // N, ms: nothing is enforced until then; S, a value of Disabled on configuration
	Sched      = "sched"       // S, also a field of a limit
	RSched     = "rsched"      // S, also a field of a limit
)

// Fields of a limit on a bucket item, for [LimitAttr].
const (
	FieldTokens      = "tk" // N, millitokens
	FieldCapacity    = "cp" // N, millitokens, not divided by the number of shards
	FieldAmount      = "ra" // N, millitokens
	FieldPeriod      = "rp" // N, ms
	FieldConsumed    = "tc" // N, millitokens
	FieldSched       = "sched"
	FieldRSched      = "rsched"
	FieldSoft        = "soft"    // N, ms: metered, not enforced, until then
	FieldResetAfter  = "rsa"     // N, s
	FieldWindowStart = "ws"      // N, ms
	FieldApplied     = "wa"      // N, ms
	FieldWindowCount = "wtc"     // N, millitokens
	FieldGrantCount  = "gc"      // N
	FieldToppedUp    = "tu"      // N, millitokens
	FieldResets      = "rn"      // N
	FieldCarry       = "co"      // S, see [EncodeCarry]; unknown to the peer
	FieldMode        = "mode"    // S, the mode of a limit with FieldSoft, also of configuration; unknown to the peer
	FieldReturns     = "returns" // N, per cent, of configuration only; unknown to the peer
	FieldShadowed    = "wr"      // N, millitokens: what a limit in shadow would have refused; unknown to the peer
	FieldShadowedAt  = "wl"      // N, ms: when it did so last; unknown to the peer
)

// LimitFields are all fields that a limit may have on a bucket item. Removing the limit
// removes them all.
var LimitFields = [...]string{
	FieldTokens, FieldCapacity, FieldAmount, FieldPeriod, FieldConsumed,
	FieldSched, FieldRSched, FieldSoft, FieldResetAfter, FieldWindowStart, FieldApplied,
	FieldWindowCount, FieldGrantCount, FieldToppedUp, FieldResets, FieldCarry,
	FieldMode, FieldShadowed, FieldShadowedAt,
}

// Names of the attributes of an entity's record.
const (
	Name      = "name"
	Metadata  = "metadata"   // M of S
	CreatedAt = "created_at" // S, see [Timestamp]
)

// Names of the attributes of configuration items and registries.
const (
	ConfigVersion      = "config_version"       // N, how often limits were set; 1 of a peer
	OnUnavailable      = "on_unavailable"       // S
	OutageShare        = "outage_share"         // BOOL: true if it is "share", which a peer reads as "block"
	AuditRetentionDays = "audit_retention_days" // N, at the system level
	Resources          = "resources"            // SS
	SlotLimits         = "slots"                // M of N; unknown to the peer, which drops it when it sets limits
)

// Names of the attributes of namespace and version records.
const (
	NamespaceID      = "namespace_id"
	NamespaceName    = "namespace_name"
	Status           = "status"
	DeletedAt        = "deleted_at"
	SchemaVersion    = "schema_version"
	ClientMinVersion = "client_min_version"
	LambdaVersion    = "lambda_version"
	UpdatedAt        = "updated_at"
	UpdatedBy        = "updated_by"
	IndexSpread      = "index_partitions"    // N, [IndexPartitions] or 1; unknown to the peer
	IndexSpreadAt    = "index_partitions_at" // S, updated_at and client_min_version as they were written with it
)

// Names of the attributes of records of manifests. The first five are the peer's.
const (
	ManagedSystem    = "managed_system"    // BOOL
	ManagedResources = "managed_resources" // L of S
	ManagedEntities  = "managed_entities"  // M of L of S: resources by entity
	LastApplied      = "last_applied"      // S, see [Timestamp]
	AppliedHash      = "applied_hash"      // S
	ManagedRecords   = "managed_records"   // L of S: entities whose record is owned
	Digests          = "digests"           // M of S, by level
	Holder           = "holder"            // S, who applies the manifest now
	HeldUntil        = "held_until"        // N, ms
	RecordsVersion   = "version"           // N, counts the changes of all records of a namespace
)

// The hidden limit of every bucket item. Each write to the item's partition costs one
// token, and the partition takes 1000 writes a second.
const (
	WCU         = "wcu"
	WCUCapacity = 1_000_000 // millitokens
	WCUAmount   = 1_000_000 // millitokens
	WCUPeriod   = 1000      // ms
	WCUCost     = 1000      // millitokens a write
)

// Attributes of the hidden limit, written out for expressions.
const (
	WCUTokens   = "b_" + WCU + "_" + FieldTokens
	WCUConsumed = "b_" + WCU + "_" + FieldConsumed
)

const limitPrefix = "b_"

// LimitAttr is the attribute that holds a field of a limit on a bucket item.
// Limit names may hold ".", "-" and "_": in expressions it needs an alias.
func LimitAttr(limit, field string) string { return limitPrefix + limit + "_" + field }

// splitLimitAttr is the inverse of [LimitAttr]. No field contains an underscore, so the
// last underscore ends the limit's name whatever the name contains.
func splitLimitAttr(attr string) (limit, field string, ok bool) {
	if !strings.HasPrefix(attr, limitPrefix) {
		return "", "", false
	}
	rest := attr[len(limitPrefix):]
	i := strings.LastIndexByte(rest, '_')
	if i <= 0 {
		return "", "", false
	}
	return rest[:i], rest[i+1:], true
}
