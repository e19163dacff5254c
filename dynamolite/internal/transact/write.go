// Package transact executes transactions in two steps (ADR 011).
//
// Invariants: every transaction takes its locks in the same order, so two of them never wait for each
// other. From the first step to the second, no other request writes the items that it has taken.
package transact

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/history"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/request"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

const (
	maxTransaction      = 100             // items
	maxTransactionBytes = 4 * 1024 * 1024 // of items, together
)

// TransactWriteItems executes the operation of that name.
// transactWriteItems reserves the items in one step and writes them in another (ADR 011).
func (tr *Transactor) TransactWriteItems(ctx context.Context, c *api.Call, in *dynamodb.TransactWriteItemsInput) (*dynamodb.TransactWriteItemsOutput, error) {
	if err := request.CheckReturns(in.ReturnConsumedCapacity, in.ReturnItemCollectionMetrics); err != nil {
		return nil, err
	}
	writes, err := tr.NewTransactWrite(c, in.TransactItems)
	if err != nil {
		return nil, err
	}
	var bs request.Bills
	if in.ClientRequestToken == nil {
		bs, err = tr.TransactWrite(ctx, c, writes, nil)
	} else {
		bs, err = tr.transactOnce(ctx, c, writes, *in.ClientRequestToken, FingerprintOf(in.TransactItems))
	}
	bs.Enter(c.Op)
	if err != nil {
		return nil, err
	}
	var metrics request.Collections
	for i := range writes {
		if w := &writes[i]; w.Kind != request.WriteCheck {
			metrics.Add(c, w, in.ReturnItemCollectionMetrics)
		}
	}
	return &dynamodb.TransactWriteItemsOutput{
		ConsumedCapacity:      bs.Report(in.ReturnConsumedCapacity),
		ItemCollectionMetrics: metrics,
	}, nil
}

// transactOnce executes a transaction unless its token shows that it is already done. A
// repetition is billed as a read of the items.
func (tr *Transactor) transactOnce(ctx context.Context, c *api.Call, writes []request.Write, token string, work history.Fingerprint) (bs request.Bills, err error) {
	if token == "" || len(token) > history.MaxToken {
		return nil, api.Validationf("1 validation error detected: Value '%s' at 'clientRequestToken' failed to satisfy constraint: Member must have length between 1 and %d", token, history.MaxToken)
	}
	use, done, err := tr.Tokens.Begin(c, token, work, tr.Now())
	if err != nil {
		return nil, err
	}
	if done {
		bs = request.Bills{}
		for i := range writes {
			w := &writes[i]
			size := w.Table.Shard(&w.Key).Get(c, w.Key.Full).Bytes()
			bs.Of(w.Table, request.Bill{Reads: true, Doubled: true}).Units += request.Transacted(table.ReadUnits(size, true))
		}
		return bs, nil
	}
	defer tr.Tokens.GiveUp(use)
	return tr.TransactWrite(ctx, c, writes, use)
}

// TransactWrite executes a transaction in two steps, as DynamoDB does. The first step checks
// everything and takes the items; the second writes them. Between the steps no other request
// writes these items. Plain reads see them unchanged.
//
//	this transaction    lock · check · take · unlock         lock · write · release · unlock
//	another one                                      lock · finds them taken · cancelled
//	a single write                                   lock · finds it taken · refused
func (tr *Transactor) TransactWrite(ctx context.Context, c *api.Call, writes []request.Write, use *history.TokenUse) (request.Bills, error) {
	tx := NewTransaction(writes)
	if bs, err := tx.Prepare(tr, c); err != nil {
		return bs, err
	}
	if err := tr.hold(ctx); err != nil {
		tx.abandon()
		return nil, err
	}
	return tx.Commit(tr, c, use)
}

// Transaction is a TransactWriteItems in progress.
//
// The naive design holds all locks from the first check to the last write. It is right in a process
// where nothing waits in between. But DynamoDB spends a round trip between the two steps, and
// Options.Latency spends it too. Readers of these shards would wait for it, and they are all items
// whose keys have the same hash. DynamoDB also does not let others wait: it cancels them, and
// programs that retry are tested against that here.
type Transaction struct {
	writes []request.Write
	// effects are by write. After Prepare their items cannot change, because they are taken. The
	// schema of their table can: an index may have come, and must get its entry.
	effects []request.Effect
	// locks are those of all writes, each once and in the order of lockSet. Every step takes all.
	locks []shardLock
}

// NewTransaction returns a transaction that has not begun.
func NewTransaction(writes []request.Write) *Transaction {
	return &Transaction{
		writes: writes, effects: make([]request.Effect, len(writes)),
		locks: lockSet(len(writes), func(i int) (*table.Table, *storage.ItemKey) { return writes[i].Table, &writes[i].Key }),
	}
}

func (tx *Transaction) lock() {
	for _, l := range tx.locks {
		l.shard().Mu.Lock()
	}
}

func (tx *Transaction) unlock() {
	for _, l := range tx.locks {
		l.shard().Mu.Unlock()
	}
}

// Prepare evaluates all writes and takes their items if all writes can be done. A cancelled
// transaction is billed as if each of its conditions had failed; AWS documents only that it is
// billed.
func (tx *Transaction) Prepare(tr *Transactor, c *api.Call) (request.Bills, error) {
	tx.lock()
	defer tx.unlock()
	reasons := make([]types.CancellationReason, len(tx.writes))
	cancelled, bytes, now := false, 0, tr.Now()
	for i := range tx.writes {
		w := &tx.writes[i]
		e, err := prepareLocked(w, c)
		reasons[i] = reasonFor(err)
		if err == nil {
			if refusals := request.RefusalsOf(now, w.Demands(&e, request.Transacted)); len(refusals) > 0 {
				reasons[i] = refusals[0].Cancellation()
				cancelled = true
			}
		}
		cancelled = cancelled || err != nil
		tx.effects[i] = e
		bytes += max(e.Old.Bytes(), e.New.Bytes())
	}
	if bytes > maxTransactionBytes {
		return nil, api.Validationf("The items of the transaction have %d bytes together, more than %d", bytes, maxTransactionBytes)
	}
	if cancelled {
		bs := request.Bills{}
		for i := range tx.writes {
			w, u := &tx.writes[i], request.Transacted(table.WriteUnits(tx.effects[i].Old.Bytes()))
			bs.Of(w.Table, request.Bill{Doubled: true}).Units += u
			if w.Table.Meter != nil && w.Misfit == nil {
				request.Charge(now, []request.Demand{{Table: w.Table, Op: wall.Write, Partition: w.Key.Partition(), Units: u}})
			}
		}
		return bs, canceled(reasons)
	}
	for i := range tx.writes {
		w := &tx.writes[i]
		w.Table.Shard(&w.Key).TakeLocked(w.Key.Full)
	}
	return nil, nil
}

// prepareLocked evaluates a write of a transaction.
func prepareLocked(w *request.Write, c *api.Call) (request.Effect, error) {
	s := w.Table.Shard(&w.Key)
	c.See(s.Latest)
	old := s.GetLocked(w.Key.Full)
	if s.TakenLocked(w.Key.Full) {
		return request.Effect{Old: old}, api.Conflict()
	}
	return w.Evaluate(old)
}

// abandon releases the items without writing them.
func (tx *Transaction) abandon() {
	tx.lock()
	defer tx.unlock()
	tx.releaseLocked()
}

func (tx *Transaction) releaseLocked() {
	for i := range tx.writes {
		w := &tx.writes[i]
		w.Table.Shard(&w.Key).ReleaseLocked(w.Key.Full)
	}
}

// Commit writes the items, which are still as Prepare found them, and releases them. Only the
// indexes may have changed since.
func (tx *Transaction) Commit(tr *Transactor, c *api.Call, use *history.TokenUse) (request.Bills, error) {
	tx.lock()
	defer tx.unlock()
	tx.releaseLocked()
	bs, now := request.Bills{}, tr.Now()
	changes := make([]history.Change, 0, len(tx.writes))
	for i := range tx.writes {
		w, e := &tx.writes[i], &tx.effects[i]
		if s := w.Table.Schema(); s != e.Schema {
			e.Schema = s
			e.Reindex()
		}
		bs.Of(w.Table, request.Bill{Doubled: true}).AddWrite(e)
		request.Charge(now, w.Demands(e, request.Transacted))
		if !e.Same() {
			changes = append(changes, w.Change(e))
		}
	}
	pos, err := tr.Log.Note(use, changes...)
	if err != nil {
		return nil, err
	}
	c.See(pos)
	if use != nil {
		tr.Tokens.Settle(use, pos, now)
	}
	for i := range tx.writes {
		if e := &tx.effects[i]; !e.Same() {
			tx.writes[i].ApplyLocked(e, pos)
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
	message, ok := api.UserError(err)
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

// NewTransactWrite validates a transaction.
func (tr *Transactor) NewTransactWrite(c *api.Call, items []types.TransactWriteItem) ([]request.Write, error) {
	if err := checkTransactionSize(len(items)); err != nil {
		return nil, err
	}
	writes := make([]request.Write, len(items))
	seen := make(map[request.ItemName]bool, len(items))
	for i := range items {
		w, err := tr.newTransacted(c, &items[i])
		if _, ok := errors.AsType[*api.MisfitError](err); ok {
			writes[i] = request.Write{Table: w.Table, Misfit: err}
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := seenOnce(seen, w.Table, w.Key.Full); err != nil {
			return nil, err
		}
		writes[i] = w
	}
	return writes, nil
}

func checkTransactionSize(n int) error {
	switch {
	case n < 1:
		return api.Unfit("'[]'", "transactItems", "Member must have length greater than or equal to 1")
	case n > maxTransaction: // AWS repeats all items
		return api.Unfit(fmt.Sprintf("'[%d items]'", n), "transactItems", fmt.Sprintf("Member must have length less than or equal to %d", maxTransaction))
	}
	return nil
}

// seenOnce returns an error for a transaction that names an item twice.
func seenOnce(seen map[request.ItemName]bool, t *table.Table, key string) error {
	k := request.ItemName{Table: t, Key: key}
	if seen[k] {
		return api.Validation("Transaction request cannot include multiple operations on one item")
	}
	seen[k] = true
	return nil
}

// transactedWrite holds the parts that the four kinds of operation in a transaction share.
type transactedWrite struct {
	kind              request.WriteKind
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
			request.WritePut, p.TableName, p.Item, p.ConditionExpression, nil,
			p.ExpressionAttributeNames, p.ExpressionAttributeValues, p.ReturnValuesOnConditionCheckFailure,
		})
	}
	if u := it.Update; u != nil {
		ops = append(ops, transactedWrite{
			request.WriteUpdate, u.TableName, u.Key, u.ConditionExpression, u.UpdateExpression,
			u.ExpressionAttributeNames, u.ExpressionAttributeValues, u.ReturnValuesOnConditionCheckFailure,
		})
	}
	if d := it.Delete; d != nil {
		ops = append(ops, transactedWrite{
			request.WriteDelete, d.TableName, d.Key, d.ConditionExpression, nil,
			d.ExpressionAttributeNames, d.ExpressionAttributeValues, d.ReturnValuesOnConditionCheckFailure,
		})
	}
	if c := it.ConditionCheck; c != nil {
		ops = append(ops, transactedWrite{
			request.WriteCheck, c.TableName, c.Key, c.ConditionExpression, nil,
			c.ExpressionAttributeNames, c.ExpressionAttributeValues, c.ReturnValuesOnConditionCheckFailure,
		})
	}
	return ops
}

// newTransacted validates one operation. For an item that does not fit the table it returns a
// *misfitError, but only if everything else is valid.
func (tr *Transactor) newTransacted(c *api.Call, it *types.TransactWriteItem) (w request.Write, err error) {
	ops := transactedWrites(it)
	if len(ops) != 1 {
		return w, api.Validation("TransactItems can only contain one of Check, Put, Update or Delete")
	}
	op := &ops[0]
	t, err := tr.Tables.Find(c, op.tableName)
	if err != nil {
		return w, err
	}
	parsed := request.Write{Table: t}
	if err := op.parse(&parsed); err != nil {
		return w, err
	}
	w, err = request.NewWrite(t, op.kind, op.item)
	if err == nil {
		err = parsed.SparesKey()
	}
	w.Cond, w.OldOnFailure, w.Update, w.Touched = parsed.Cond, parsed.OldOnFailure, parsed.Update, parsed.Touched
	return w, err
}

// parse parses the expressions.
func (op *transactedWrite) parse(w *request.Write) error {
	switch {
	case op.kind == request.WriteCheck && op.condition == nil:
		return api.Missing("ConditionExpression")
	case op.kind == request.WriteUpdate && op.update == nil:
		return api.Missing("UpdateExpression")
	}
	env, err := request.NewEnv("", op.names, op.values, op.update, op.condition)
	if err != nil {
		return err
	}
	if op.update != nil {
		if err := w.Updating(*op.update, env); err != nil {
			return err
		}
	}
	if err := w.Conditional(op.condition, op.onFailure, env); err != nil {
		return err
	}
	return request.Unused(env)
}

// Transactor executes transactions.
type Transactor struct {
	*request.Executor

	Tokens *history.Tokens
	// hold waits for the time that a transaction spends between its two steps.
	hold func(context.Context) error
}

// New returns the transactor beside the executor of other requests.
func New(ex *request.Executor, tokens *history.Tokens, hold func(context.Context) error) *Transactor {
	return &Transactor{ex, tokens, hold}
}
