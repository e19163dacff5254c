package usage

import (
	"context"
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

// undeleted returns the diaries whose entities were not deleted since their lives began.
func (s *Snapshots) undeleted(ctx context.Context, op string, all []Diary) ([]Diary, error) {
	found, err := s.conn.BatchGet(ctx, op, s.deletions(all), true)
	if err != nil {
		return nil, err
	}
	return s.without(found, all)
}

// unpurged is undeleted, and returns none if the namespace is being purged, or was. A purge
// writes that before it lists what it deletes, and lists again until nothing is left.
func (s *Snapshots) unpurged(ctx context.Context, op string, all []Diary) ([]Diary, error) {
	own := schema.NamespaceIDKey(s.ns)
	found, err := s.conn.BatchGet(ctx, op, append(s.deletions(all), own), true)
	if err != nil || found[own] == nil {
		return nil, err
	}
	ns, err := schema.DecodeNamespace(found[own])
	if err != nil || ns.Status == schema.StatusPurging {
		return nil, err
	}
	return s.without(found, all)
}

// deletions are the keys of the items that tell of deletions of the entities.
func (s *Snapshots) deletions(all []Diary) []schema.Key {
	keys := make([]schema.Key, len(all))
	for i := range all {
		keys[i] = schema.DeletionKey(s.ns, all[i].Entity)
	}
	return keys
}

// without returns diaries without those that were deleted.
func (s *Snapshots) without(deleted map[schema.Key]schema.Item, all []Diary) ([]Diary, error) {
	kept := make([]Diary, 0, len(all))
	for i := range all {
		if deletion, is := deleted[schema.DeletionKey(s.ns, all[i].Entity)]; is {
			at, err := schema.DecodeDeletion(deletion)
			if err != nil {
				return nil, err
			}
			if all[i].Life <= at {
				continue
			}
		}
		kept = append(kept, all[i])
	}
	return kept, nil
}
