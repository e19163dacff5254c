// Package archive keeps audit events that a table has deleted on expiry,
// in S3 or in a storage service that speaks its protocol.
//
// # Layout
//
// An object holds events of one day in UTC (ADR 022): a line of JSON each, in the order of
// their IDs, compressed with gzip.
//
//	PREFIX/year=2026/month=01/day=02/FIRST-LAST-SUM.jsonl.gz
//
// FIRST and LAST are the IDs of the first and last event, SUM is a checksum of the
// content of all events. The same events make the same object under the same name, and
// other events make an object of another name. So a batch that is stored twice exists
// once. If the second time divides the batches differently, an event is in two objects.
//
// A line has the fields of `zae-limiter audit list --output json`, and the event's
// namespace:
//
//	{"namespace_id":"…","namespace":"default","event_id":"01…","timestamp":"2026-01-02T03:04:05Z",
//	 "action":"limits_set","entity_id":"key-1","principal":"…","resource":"gpt-4","details":{…},"expires_at":"…"}
//
// The path contains the partitions that query engines such as Athena use. docs/audit.md has
// the table of Athena for it.
//
// # Permissions
//
// Opening needs s3:ListBucket on the bucket, and storing s3:PutObject below the prefix.
package archive
