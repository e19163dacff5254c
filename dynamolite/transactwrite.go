package dynamolite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

const (
	maxTransaction      = 100             // items
	maxTransactionBytes = 4 * 1024 * 1024 // of items, together
)

// TransactWriteItems applies up to 100 puts, updates, deletes and condition checks, all or none.
// If one fails, the error is a *types.TransactionCanceledException with a reason for each. The
// items are taken from the check of the conditions until all are written. Meanwhile another
// transaction that names one of them is cancelled, and another write gets a
// *types.TransactionConflictException. With a ClientRequestToken, a repetition within ten minutes
// succeeds and changes nothing. Unlike the SDK's client, a DB does not generate a missing token.
func (db *DB) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	return run(ctx, db, opTransactWriteItems, in, func(db *DB, c *call, in *dynamodb.TransactWriteItemsInput) (*dynamodb.TransactWriteItemsOutput, error) {
		return db.transactWriteItems(ctx, c, in)
	})
}

// transactWriteItems reserves the items in one step and writes them in another (ADR 011).
func (db *DB) transactWriteItems(ctx context.Context, c *call, in *dynamodb.TransactWriteItemsInput) (*dynamodb.TransactWriteItemsOutput, error) {
	if err := checkReturns(in.ReturnConsumedCapacity, in.ReturnItemCollectionMetrics); err != nil {
		return nil, err
	}
	writes, err := db.newTransactWrite(c, in.TransactItems)
	if err != nil {
		return nil, err
	}
	var bs bills
	if in.ClientRequestToken == nil {
		bs, err = db.transactWrite(ctx, c, writes, nil)
	} else {
		bs, err = db.transactOnce(ctx, c, writes, *in.ClientRequestToken, fingerprintOf(in.TransactItems))
	}
	bs.enter(c.op)
	if err != nil {
		return nil, err
	}
	var metrics collections
	for i := range writes {
		if w := &writes[i]; w.kind != writeCheck {
			metrics.add(c, w, in.ReturnItemCollectionMetrics)
		}
	}
	return &dynamodb.TransactWriteItemsOutput{
		ConsumedCapacity:      bs.report(in.ReturnConsumedCapacity),
		ItemCollectionMetrics: metrics,
	}, nil
}

// transactOnce executes a transaction unless its token shows that it is already done. A
// repetition is billed as a read of the items.
func (db *DB) transactOnce(ctx context.Context, c *call, writes []write, token string, request fingerprint) (bs bills, err error) {
	if token == "" || len(token) > maxToken {
		return nil, validationf("1 validation error detected: Value '%s' at 'clientRequestToken' failed to satisfy constraint: Member must have length between 1 and %d", token, maxToken)
	}
	use, done, err := db.tokens.begin(c, token, request, db.now())
	if err != nil {
		return nil, err
	}
	if done {
		bs = bills{}
		for i := range writes {
			w := &writes[i]
			size := w.table.shard(&w.key).get(c, w.key.full).bytes()
			bs.of(w.table, bill{reads: true, doubled: true}).units += transacted(readUnits(size, true))
		}
		return bs, nil
	}
	defer db.tokens.giveUp(use)
	return db.transactWrite(ctx, c, writes, use)
}

// transactWrite executes a transaction in two steps, as DynamoDB does. The first step checks
// everything and takes the items; the second writes them. Between the steps no other request
// writes these items. Plain reads see them unchanged.
//
//	this transaction    lock · check · take · unlock         lock · write · release · unlock
//	another one                                      lock · finds them taken · cancelled
//	a single write                                   lock · finds it taken · refused
func (db *DB) transactWrite(ctx context.Context, c *call, writes []write, use *tokenUse) (bills, error) {
	tx := transaction{writes: writes, effects: make([]effect, len(writes))}
	tx.locks = lockSet(len(writes), func(i int) (*table, *itemKey) { return writes[i].table, &writes[i].key })
	if bs, err := tx.prepare(db, c); err != nil {
		return bs, err
	}
	if err := db.hold(ctx); err != nil {
		tx.abandon()
		return nil, err
	}
	return tx.commit(db, c, use)
}

// transaction is a TransactWriteItems in progress.
type transaction struct {
	writes  []write
	effects []effect // by write
	locks   []shardLock
}

func (tx *transaction) lock() {
	for _, l := range tx.locks {
		l.shard().mu.Lock()
	}
}

func (tx *transaction) unlock() {
	for _, l := range tx.locks {
		l.shard().mu.Unlock()
	}
}

// prepare evaluates all writes and takes their items if all writes can be done. A cancelled
// transaction is billed as if each of its conditions had failed; AWS documents only that it is
// billed.
func (tx *transaction) prepare(db *DB, c *call) (bills, error) {
	tx.lock()
	defer tx.unlock()
	reasons := make([]types.CancellationReason, len(tx.writes))
	cancelled, bytes, now := false, 0, db.now()
	for i := range tx.writes {
		w := &tx.writes[i]
		e, err := w.prepareLocked(c)
		reasons[i] = reasonFor(err)
		if err == nil {
			if refusals := refusalsOf(now, w.demands(db, &e, transacted)); len(refusals) > 0 {
				reasons[i] = refusals[0].cancellation()
				cancelled = true
			}
		}
		cancelled = cancelled || err != nil
		tx.effects[i] = e
		bytes += max(e.old.bytes(), e.new.bytes())
	}
	if bytes > maxTransactionBytes {
		return nil, validationf("The items of the transaction have %d bytes together, more than %d", bytes, maxTransactionBytes)
	}
	if cancelled {
		bs := bills{}
		for i := range tx.writes {
			w, u := &tx.writes[i], transacted(writeUnits(tx.effects[i].old.bytes()))
			bs.of(w.table, bill{doubled: true}).units += u
			if db.limited() && w.misfit == nil {
				charge(now, []demand{{table: w.table, op: wall.Write, partition: w.key.partition(), units: u}})
			}
		}
		return bs, canceled(reasons)
	}
	for i := range tx.writes {
		w := &tx.writes[i]
		w.table.shard(&w.key).takeLocked(w.key.full)
	}
	return nil, nil
}

// prepareLocked evaluates a write of a transaction.
func (w *write) prepareLocked(c *call) (effect, error) {
	s := w.table.shard(&w.key)
	c.sees(s.latest)
	old := s.getLocked(w.key.full)
	if s.takenLocked(w.key.full) {
		return effect{old: old}, conflict()
	}
	return w.evaluate(old)
}

// abandon releases the items without writing them.
func (tx *transaction) abandon() {
	tx.lock()
	defer tx.unlock()
	tx.releaseLocked()
}

func (tx *transaction) releaseLocked() {
	for i := range tx.writes {
		w := &tx.writes[i]
		w.table.shard(&w.key).releaseLocked(w.key.full)
	}
}

// commit writes the items, which are still as prepare found them, and releases them. Only the
// indexes may have changed since.
func (tx *transaction) commit(db *DB, c *call, use *tokenUse) (bills, error) {
	tx.lock()
	defer tx.unlock()
	tx.releaseLocked()
	bs, now := bills{}, db.now()
	changes := make([]change, 0, len(tx.writes))
	for i := range tx.writes {
		w, e := &tx.writes[i], &tx.effects[i]
		if s := w.table.schema(); s != e.schema {
			e.schema = s
			e.reindex()
		}
		bs.of(w.table, bill{doubled: true}).addWrite(e)
		charge(now, w.demands(db, e, transacted))
		if !e.same() {
			changes = append(changes, w.change(e))
		}
	}
	pos, err := db.note(use, changes...)
	if err != nil {
		return nil, err
	}
	c.sees(pos)
	if use != nil {
		db.tokens.settle(use, pos, now)
	}
	for i := range tx.writes {
		if e := &tx.effects[i]; !e.same() {
			tx.writes[i].applyLocked(e, pos)
		}
	}
	return bs, nil
}

// reasonFor returns the reason that the evaluation of one write adds to the cancellation of its
// transaction.
func reasonFor(err error) types.CancellationReason {
	if err == nil {
		return types.CancellationReason{Code: aws.String("None")}
	}
	if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return types.CancellationReason{Code: aws.String("ConditionalCheckFailed"), Message: failed.Message, Item: failed.Item}
	}
	if busy, ok := errors.AsType[*types.TransactionConflictException](err); ok {
		return types.CancellationReason{Code: aws.String("TransactionConflict"), Message: busy.Message}
	}
	message, ok := userError(err)
	if !ok {
		message = err.Error()
		if e, is := errors.AsType[smithy.APIError](err); is {
			message = e.ErrorMessage()
		}
	}
	return types.CancellationReason{Code: aws.String("ValidationError"), Message: aws.String(message)}
}

func canceled(reasons []types.CancellationReason) error {
	codes := make([]string, len(reasons))
	for i := range reasons {
		codes[i] = *reasons[i].Code
	}
	return &types.TransactionCanceledException{
		Message:             aws.String("Transaction cancelled, please refer cancellation reasons for specific reasons [" + strings.Join(codes, ", ") + "]"),
		CancellationReasons: reasons,
	}
}

// newTransactWrite validates a transaction.
func (db *DB) newTransactWrite(c *call, items []types.TransactWriteItem) ([]write, error) {
	if err := checkTransactionSize(len(items)); err != nil {
		return nil, err
	}
	writes := make([]write, len(items))
	seen := make(map[transactKey]bool, len(items))
	for i := range items {
		w, err := db.newTransacted(c, &items[i])
		if _, ok := errors.AsType[*misfitError](err); ok {
			writes[i] = write{table: w.table, misfit: err}
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := seenOnce(seen, w.table, w.key.full); err != nil {
			return nil, err
		}
		writes[i] = w
	}
	return writes, nil
}

func checkTransactionSize(n int) error {
	switch {
	case n < 1:
		return unfit("'[]'", "transactItems", "Member must have length greater than or equal to 1")
	case n > maxTransaction: // AWS repeats all items
		return unfit(fmt.Sprintf("'[%d items]'", n), "transactItems", fmt.Sprintf("Member must have length less than or equal to %d", maxTransaction))
	}
	return nil
}

type transactKey struct {
	table *table
	key   string
}

// seenOnce returns an error for a transaction that names an item twice.
func seenOnce(seen map[transactKey]bool, t *table, key string) error {
	k := transactKey{t, key}
	if seen[k] {
		return validation("Transaction request cannot include multiple operations on one item")
	}
	seen[k] = true
	return nil
}

// transactedWrite holds the parts that the four kinds of operation in a transaction share.
type transactedWrite struct {
	kind              writeKind
	tableName         *string
	item              value.Item // the item of a put, the key of the other kinds
	condition, update *string
	names             map[string]string
	values            value.Item
	onFailure         types.ReturnValuesOnConditionCheckFailure
}

func transactedWrites(it *types.TransactWriteItem) []transactedWrite {
	var ops []transactedWrite
	if p := it.Put; p != nil {
		ops = append(ops, transactedWrite{
			writePut, p.TableName, p.Item, p.ConditionExpression, nil,
			p.ExpressionAttributeNames, p.ExpressionAttributeValues, p.ReturnValuesOnConditionCheckFailure,
		})
	}
	if u := it.Update; u != nil {
		ops = append(ops, transactedWrite{
			writeUpdate, u.TableName, u.Key, u.ConditionExpression, u.UpdateExpression,
			u.ExpressionAttributeNames, u.ExpressionAttributeValues, u.ReturnValuesOnConditionCheckFailure,
		})
	}
	if d := it.Delete; d != nil {
		ops = append(ops, transactedWrite{
			writeDelete, d.TableName, d.Key, d.ConditionExpression, nil,
			d.ExpressionAttributeNames, d.ExpressionAttributeValues, d.ReturnValuesOnConditionCheckFailure,
		})
	}
	if c := it.ConditionCheck; c != nil {
		ops = append(ops, transactedWrite{
			writeCheck, c.TableName, c.Key, c.ConditionExpression, nil,
			c.ExpressionAttributeNames, c.ExpressionAttributeValues, c.ReturnValuesOnConditionCheckFailure,
		})
	}
	return ops
}

// newTransacted validates one operation. For an item that does not fit the table it returns a
// *misfitError, but only if everything else is valid.
func (db *DB) newTransacted(c *call, it *types.TransactWriteItem) (w write, err error) {
	ops := transactedWrites(it)
	if len(ops) != 1 {
		return w, validation("TransactItems can only contain one of Check, Put, Update or Delete")
	}
	op := &ops[0]
	t, err := db.table(c, op.tableName)
	if err != nil {
		return w, err
	}
	parsed := write{table: t}
	if err := op.parse(&parsed); err != nil {
		return w, err
	}
	if op.kind == writePut {
		w, err = t.newPut(op.item)
	} else {
		w, err = t.newKeyed(op.kind, op.item)
	}
	if err == nil {
		err = parsed.sparesKey()
	}
	w.cond, w.oldOnFailure, w.update, w.touched = parsed.cond, parsed.oldOnFailure, parsed.update, parsed.touched
	return w, err
}

// parse parses the expressions.
func (op *transactedWrite) parse(w *write) error {
	switch {
	case op.kind == writeCheck && op.condition == nil:
		return missing("ConditionExpression")
	case op.kind == writeUpdate && op.update == nil:
		return missing("UpdateExpression")
	}
	env, err := newEnv("", op.names, op.values, op.update, op.condition)
	if err != nil {
		return err
	}
	if op.update != nil {
		if err := w.updating(*op.update, env); err != nil {
			return err
		}
	}
	if err := w.conditional(op.condition, op.onFailure, env); err != nil {
		return err
	}
	return unused(env)
}
