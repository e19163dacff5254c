package dynamo

import (
	"context"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

var _ store.OnceStore = (*Store)(nil)

// SettleOnce settles a lease that was written down, in one transaction (ADR 058):
//
//	PUT     the record of the lease     if there is none
//	UPDATE  each bucket item            as [Store.Adjust] or [Store.Refill] does
//
// If the record refuses, SettleOnce reads it. Errors are as for [Store.Gather].
func (s *Store) SettleOnce(ctx context.Context, t *store.Settlement) (store.SettledOnce, error) {
	r := &t.Record
	if err := checkSettlement(t); err != nil {
		return store.SettledOnce{}, err
	}
	op := "settle the lease " + r.Key + " of " + r.Entity
	record := once{
		cause: Cause{Key: r.Key}, kind: schema.OperationSettle, entity: r.Entity, resource: r.Resource,
		at: schema.SettlementKey(s.ns, r.Bucket, r.Key), incarnation: schema.NoIncarnation,
	}
	writes := make([]types.TransactWriteItem, 1, 1+len(t.Writes))
	writes[0].Put = s.recordPut(&record, &schema.Operation{Amounts: r.Totals, Expires: r.ExpiresAt})
	for i := range t.Writes {
		update, err := s.settlementUpdate(ctx, &t.Writes[i])
		if err != nil {
			return store.SettledOnce{}, err
		}
		writes = append(writes, types.TransactWriteItem{Update: update})
	}
	joint, err := s.together(ctx, op, writes)
	if len(joint.Refusals) == 0 {
		return store.SettledOnce{Joint: joint}, err
	}
	isSettled := joint.Refusals[0].Refused
	joint.Refusals = joint.Refusals[1:]
	if err != nil || !isSettled {
		return store.SettledOnce{Joint: joint}, err
	}
	before, err := s.settledBefore(ctx, op, &record, r)
	return store.SettledOnce{Before: before}, err
}

// settledBefore reads the record of an earlier settlement.
func (s *Store) settledBefore(ctx context.Context, op string, record *once, r *store.SettlementRecord) (*store.SettlementRecord, error) {
	items, err := s.conn.BatchGet(ctx, op, []schema.Key{record.at}, true)
	if err != nil {
		return nil, err
	}
	it := items[record.at]
	if it == nil {
		return nil, fmt.Errorf("%s: the record of an earlier settlement has just expired: %w", op, store.ErrConflict)
	}
	done, err := schema.DecodeOperation(it)
	if err != nil {
		return nil, err
	}
	return &store.SettlementRecord{Bucket: r.Bucket, Key: r.Key, Totals: done.Amounts, ExpiresAt: done.Expires}, nil
}

// checkSettlement validates the arguments of SettleOnce, except the writes' own.
func checkSettlement(t *store.Settlement) error {
	r := &t.Record
	if err := checkBucket(r.Bucket); err != nil {
		return err
	}
	switch {
	case !schema.IsOperationID(r.Key):
		return &store.ValidationError{Field: "key", Value: r.Key, Reason: `use 1 to 64 letters, digits, ".", "_", ":" and "-"`}
	case len(t.Writes) > store.MaxSettlementWrites:
		return &store.ValidationError{
			Field: "writes", Value: strconv.Itoa(len(t.Writes)), Reason: fmt.Sprintf("write to at most %d items", store.MaxSettlementWrites),
		}
	}
	named := make(map[store.Bucket]bool, len(t.Writes))
	for i := range t.Writes {
		b := t.Writes[i].Bucket()
		if named[b] {
			return &store.ValidationError{Field: "writes", Value: strconv.Itoa(b.Shard), Reason: "write to a shard once in a settlement"}
		}
		named[b] = true
	}
	return nil
}

// settlementUpdate is a write of a settlement as a part of its transaction.
func (s *Store) settlementUpdate(ctx context.Context, w *store.SettlementWrite) (*types.Update, error) {
	if w.Refill != nil {
		return s.refillUpdate(ctx, w.Refill)
	}
	a := w.Adjust
	if err := checkBucket(a.Bucket); err != nil {
		return nil, err
	}
	turn, err := s.prepare(ctx, a.Bucket, a.Turn)
	if err != nil {
		return nil, err
	}
	var e expression.Write
	describeAdjust(&e, a)
	turn.describe(&e, nil)
	return s.updateOf(&e, a.Bucket, &s.adjusts)
}
