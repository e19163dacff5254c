// Package archive keeps the audit events that a table has deleted, because they
// expired, in S3 or a storage that speaks its protocol, and searches them.
//
// # Layout
//
// An object holds events of one day (UTC): a line of JSON each, in the order of
// their IDs, compressed with gzip.
//
//	PREFIX/year=2026/month=01/day=02/FIRST-LAST-SUM.jsonl.gz
//
// FIRST and LAST are the IDs of the first and last event, SUM is of what all of
// them say. The same events make the same object under the same name, and others
// one of another name: a batch that is stored twice is there once. Where batches
// are cut differently the second time, an event is in two objects, and is found
// once.
//
// A line has the fields of `zae-limiter audit list --output json`, and whose event it is:
//
//	{"namespace_id":"…","namespace":"default","event_id":"01…","timestamp":"2026-01-02T03:04:05Z",
//	 "action":"limits_set","entity_id":"key-1","principal":"…","resource":"gpt-4","details":{…},"expires_at":"…"}
//
// What query engines that know partitions ask for, such as Athena, is in the path.
//
// # What it needs
//
// Opening needs s3:ListBucket of the bucket, storing s3:PutObject and searching
// s3:GetObject of what is below the prefix.
package archive
