package usage

import (
	"context"
	"math"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// forgetFor is how long a deletion is remembered. The table's stream shows deleted items for
// a day, and to a redrive of dead letters for no longer.
const forgetFor = 48 * time.Hour

// Forget begins the deletion of an entity's usage: from then on, nothing is saved of the
// lives of its buckets that began before. Pages that exist stay, so the caller lists and
// deletes them afterwards.
//
// A bucket's last page is saved when the stream shows that the item has gone: some time
// after, and again whenever a reader repeats old records. A limiter saves what it remembers
// of an item, without a look at it. So the pages of an entity would come back:
//
//	deletion     deletes the items ── deletes the pages
//	aggregator                                           reads the record ── saves the last page
//
// The deletion leaves an item that every save reads first (ADR 039):
//
//	deletion     writes the item ── lists the pages ── deletes them
//	aggregator                                                       reads the item, saves nothing
//
// A save that has read before the item was written, and arrives after the pages were listed,
// is not found. Its write must take longer than the deletion's write and two of its reads.
// Deleting the entity again finds it.
//
// A life that began later is saved: it is told by its time of creation. A life of unknown
// beginning, of an item that the peer made, counts as deleted for two days.
func (s *Snapshots) Forget(ctx context.Context, op, entity string) error {
	now := s.conn.Clock.Now()
	return s.conn.PutItem(ctx, op, &dynamodb.PutItemInput{Item: schema.EncodeDeletion(s.ns, entity, now, now.Add(forgetFor))})
}

// undeleted returns the diaries whose entities were not deleted since their lives began. It
// leaves out items that have gone with their namespace: a purge writes that before it lists
// what it deletes, and lists again until nothing is left.
//
// The namespace is read for items that have gone only: all limiters would read that one item.
func (s *Snapshots) undeleted(ctx context.Context, op string, all []Diary) (kept []Diary, err error) {
	keys := make([]schema.Key, 0, len(all)+1)
	haveGone := false
	for i := range all {
		keys = append(keys, schema.DeletionKey(s.ns, all[i].Entity))
		haveGone = haveGone || all[i].Gone
	}
	own := schema.NamespaceIDKey(s.ns)
	if haveGone {
		keys = append(keys, own)
	}
	found, err := s.conn.BatchGet(ctx, op, keys, true)
	if err != nil {
		return nil, err
	}
	isPurged := false
	if haveGone {
		if isPurged, err = purged(found[own]); err != nil {
			return nil, err
		}
	}
	for i := range all {
		deleted := int64(math.MinInt64)
		if deletion, is := found[keys[i]]; is {
			if deleted, err = schema.DecodeDeletion(deletion); err != nil {
				return nil, err
			}
		}
		if all[i].Life > deleted && (!isPurged || !all[i].Gone) {
			kept = append(kept, all[i])
		}
	}
	return kept, nil
}

// purged reports whether a namespace is being purged, or was.
func purged(record schema.Item) (bool, error) {
	if record == nil {
		return true, nil
	}
	ns, err := schema.DecodeNamespace(record)
	return ns.Status == schema.StatusPurging, err
}
