// Package audit writes and reads the audit events of a table: an event for each
// administrative change, in one transaction with the change (ADR 019). The store in
// package dynamo has the methods that read events.
package audit

// Actions of audit events. The last one is written by peers only, which can also change an
// entity's parent.
const (
	EntityCreated       = "entity_created"
	EntityDeleted       = "entity_deleted"
	LimitsSet           = "limits_set"
	LimitsDeleted       = "limits_deleted"
	RetentionSet        = "audit_retention_set"
	NamespaceRegistered = "namespace_registered"
	NamespaceDeleted    = "namespace_deleted"
	NamespaceRecovered  = "namespace_recovered"
	NamespacePurging    = "namespace_purge_started"
	NamespacePurged     = "namespace_purged"
	BucketReset         = "bucket_reset"
	BucketToppedUp      = "bucket_topped_up"

	EntityParentChanged = "entity_parent_changed"
)

// Actions returns the actions that this package knows, sorted. A later version, or another
// program, may write more.
func Actions() []string {
	return []string{
		RetentionSet, BucketReset, BucketToppedUp, EntityCreated, EntityDeleted, EntityParentChanged, LimitsDeleted, LimitsSet,
		NamespaceDeleted, NamespacePurging, NamespacePurged, NamespaceRecovered, NamespaceRegistered,
	}
}
