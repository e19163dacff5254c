package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

const (
	// purgePasses bounds the passes over a namespace. Only a client that creates items
	// again needs more than three.
	purgePasses = 10
	// purgePause is the wait between passes, in which the index catches up.
	purgePause = time.Second
	// purgeBatch is the number of items per batch, DynamoDB's limit, and purgeWorkers the
	// number of batches at a time.
	purgeBatch, purgeWorkers = 25, 8
)

// PurgeOptions configure [Namespaces.Purge]. The zero value works.
type PurgeOptions struct {
	// Quiet is for how long no bucket of the namespace may have been refilled before the
	// purge begins; 0 is [DefaultPurgeQuiet], and a negative value skips this check and
	// its reads. A bucket that is debited but not refilled escapes the check.
	Quiet time.Duration
	// Progress is called now and then with the state of the purge; nil calls nothing.
	Progress func(Purged)
}

// A Purged is what a purge has done.
type Purged struct {
	Orphan

	// Items counts the deleted items, and Passes the passes over the namespace, the one
	// under way included. A later pass may count an item again that the index still shows.
	Items  int64
	Passes int
	// Elapsed is the time since this call began.
	Elapsed time.Duration
}

// Purge deletes all items of an orphaned namespace, and then its record. This cannot be
// undone. It fails with [store.ErrNotFound] if the ID is unknown and has no items, and with
// [ErrNamespaceInUse] if a name leads to the namespace or limiters write to it.
//
// Purge first marks the namespace; from then on it cannot be recovered. A purge that was
// interrupted continues when it is called again. Passes over the index of namespaces, and
// over the pages with usage, delete items until one finds none. A scan of the whole table then finds items that are
// not in the index. The record of the ID goes last, with the audit event; the event
// belongs to the table and survives.
//
// These race with a purge:
//
//   - A client that holds the ID creates items again. Purge repeats its passes, and fails
//     with [ErrNamespaceInUse] if they do not end. Items that the client creates after the
//     last pass stay, until Purge is called again with the same ID. Stop the clients first.
//   - [Namespaces.Recover] fails once the mark is written, and Purge fails if the recovery
//     was first.
//   - Two purges delete the same items, which does no harm. Both succeed, and one of them
//     writes the last event.
func (n *Namespaces) Purge(ctx context.Context, id string, o PurgeOptions) (Purged, error) {
	p := &purge{Namespaces: n, op: "purge the namespace with the id " + id, progress: o.Progress, begun: n.conn.Clock.Now()}
	if p.progress == nil {
		p.progress = func(Purged) {}
	}
	if o.Quiet == 0 {
		o.Quiet = DefaultPurgeQuiet
	}
	if err := p.begin(ctx, id, o.Quiet); err != nil {
		return p.done, err
	}
	if err := p.empty(ctx); err != nil {
		return p.done, err
	}
	err := p.end(ctx)
	p.report()
	return p.done, err
}

// A purge is one call of Purge.
type purge struct {
	*Namespaces
	op       string
	progress func(Purged)
	begun    time.Time
	days     int // for which the namespace kept events

	done Purged
}

func (p *purge) report() {
	p.done.Elapsed = p.conn.Clock.Now().Sub(p.begun)
	p.progress(p.done)
}

// begin marks the namespace, unless an earlier purge has.
func (p *purge) begin(ctx context.Context, id string, quiet time.Duration) error {
	for range conn.AdminAttempts {
		var err error
		if p.done.Orphan, err = p.Orphan(ctx, id); err != nil {
			return err
		}
		if p.days, err = p.retentionOf(ctx, p.op, id); err != nil || p.done.State == OrphanPurging {
			return err
		}
		if quiet > 0 {
			if err := p.checkQuiet(ctx, p.begun.Add(-quiet)); err != nil {
				return err
			}
		}
		if p.done.State == OrphanPurged { // nothing is there to be marked
			return nil
		}
		err = p.mark(ctx)
		if err == nil {
			p.done.State = OrphanPurging
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("%s: %w: try again", p.op, store.ErrConflict)
}

// mark writes the status that forbids a recovery, if no name leads to the namespace.
func (p *purge) mark(ctx context.Context) error {
	event, err := p.event(ctx, audit.NamespacePurging, p.done.Namespace, p.days, nil)
	if err != nil {
		return err
	}
	return p.conn.Transact(ctx, p.op, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{ConditionCheck: &types.ConditionCheck{
			TableName: p.conn.Table, Key: schema.NamespaceKey(p.done.Name).Item(),
			ConditionExpression:       aws.String("attribute_not_exists(PK) OR namespace_id <> :id"),
			ExpressionAttributeValues: schema.Item{":id": schema.S(p.done.ID)},
		}},
		{Update: p.reverseUpdate(&p.done.Orphan, "SET #status = :next", schema.StatusPurging)},
		event,
	}})
}

// checkQuiet fails if a bucket was refilled since an instant.
func (p *purge) checkQuiet(ctx context.Context, since time.Time) error {
	const page = 100
	var keys []schema.Key
	look := func() error {
		items, err := p.conn.BatchGet(ctx, p.op, keys, false)
		if err != nil {
			return err
		}
		keys = keys[:0]
		for _, it := range items {
			b, err := schema.DecodeBucket(it)
			if err == nil && b.RefilledAt > since.UnixMilli() {
				return fmt.Errorf("%s: %w: the bucket of %s for %s was refilled at %s; stop its clients, or skip this check with --force",
					p.op, ErrNamespaceInUse, b.Entity, b.Resource, schema.Timestamp(time.UnixMilli(b.RefilledAt)))
			}
		}
		return nil
	}
	err := p.indexed(ctx, func(it schema.Item) error {
		if k := schema.KeyOf(it); k.SK == schema.StateSK {
			keys = append(keys, k)
		}
		if len(keys) < page {
			return nil
		}
		return look()
	})
	if err != nil {
		return err
	}
	return look()
}

// empty deletes the items of the namespace until none is found.
func (p *purge) empty(ctx context.Context) error {
	for p.done.Passes < purgePasses {
		if p.done.Passes > 0 && !p.conn.Immediate() {
			if err := conn.Sleep(ctx, purgePause); err != nil {
				return p.conn.Translate(p.op, err)
			}
		}
		p.done.Passes++
		found, err := p.pass(ctx, p.indexed)
		if found == 0 && err == nil {
			found, err = p.pass(ctx, p.scanned)
		}
		if found == 0 || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %w: items came back after each of %d passes; stop its clients, then purge it again", p.op, ErrNamespaceInUse, purgePasses)
}

// indexed reads the keys that the index of namespaces has, and those of pages with usage,
// which are in no index.
func (p *purge) indexed(ctx context.Context, yield func(schema.Item) error) error {
	err := p.conn.QueryMerged(ctx, p.op, schema.GSI4, schema.NamespaceIndexPKs(p.done.ID), "", yield)
	if err != nil {
		return err
	}
	return usage.New(p.conn, p.done.ID, 0).AllPages(ctx, p.op, yield)
}

// scanned reads the keys of the whole table that begin with the ID. It finds items
// without keys of the index, such as the state of the peer's provisioner.
func (p *purge) scanned(ctx context.Context, yield func(schema.Item) error) error {
	return p.conn.Scan(ctx, p.op, &dynamodb.ScanInput{
		FilterExpression: aws.String("begins_with(PK, :ns)"), ProjectionExpression: aws.String("PK, SK"),
		ExpressionAttributeValues: schema.Item{":ns": schema.S(p.done.ID + "/")}, ConsistentRead: aws.Bool(true),
	}, yield)
}

// pass deletes the items whose keys read finds, and counts them.
func (p *purge) pass(ctx context.Context, read func(context.Context, func(schema.Item) error) error) (found int, err error) {
	var keys []schema.Key
	remove := func() error {
		err := p.delete(ctx, keys)
		keys = keys[:0]
		return err
	}
	err = read(ctx, func(it schema.Item) error {
		keys = append(keys, schema.KeyOf(it))
		found++
		if len(keys) < purgeBatch*purgeWorkers {
			return nil
		}
		return remove()
	})
	if err == nil {
		err = remove()
	}
	return found, err
}

// delete deletes items in several batches at a time.
func (p *purge) delete(ctx context.Context, keys []schema.Key) error {
	var batches sync.WaitGroup
	errs := make([]error, (len(keys)+purgeBatch-1)/purgeBatch)
	i := 0
	for batch := range slices.Chunk(keys, purgeBatch) {
		failed := &errs[i]
		i++
		batches.Go(func() { *failed = p.conn.BatchDelete(ctx, p.op, batch) })
	}
	batches.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	p.done.Items += int64(len(keys))
	p.report()
	return nil
}

// end deletes the record of the ID and writes the event. Another purge may have done it.
// Items written after a purge have neither a record nor a name for an event.
func (p *purge) end(ctx context.Context) error {
	if p.done.State == OrphanPurged {
		return nil
	}
	event, err := p.event(ctx, audit.NamespacePurged, p.done.Namespace, p.days, schema.Item{"records_deleted": schema.N(p.done.Items)})
	if err != nil {
		return err
	}
	err = p.conn.Transact(ctx, p.op, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Delete: &types.Delete{
			TableName: p.conn.Table, Key: schema.NamespaceIDKey(p.done.ID).Item(),
			ConditionExpression:       aws.String("#status = :purging"),
			ExpressionAttributeNames:  map[string]string{"#status": schema.Status},
			ExpressionAttributeValues: schema.Item{":purging": schema.S(schema.StatusPurging)},
		}},
		event,
	}})
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	if record, failed := p.conn.GetItem(ctx, p.op, schema.NamespaceIDKey(p.done.ID)); failed == nil && record == nil {
		return nil
	}
	return err
}
