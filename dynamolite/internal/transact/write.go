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
	// Items of a transaction, and their bytes together ("TransactWriteItems" and
	// "TransactGetItems", API reference).
	maxTransaction      = 100
	maxTransactionBytes = 4 * 1024 * 1024 // of items, together
)

// TransactWriteItems executes the operation of that name (ADR 011). A cancelled transaction is
// billed, too, so the bills are entered before the error is looked at.
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
//
// The claim is given up in any case. If the transaction has succeeded, its claim is settled by
// then, and giving up changes nothing. After a failure the same token may be used at once.
//
//	caller A   claim · take items ··········· write · settle
//	caller B           in progress: refused                    done: answered without a write
//
// A repetition checks no condition: the items may have changed since. Its price is documented by
// AWS; DynamoDB Local bills half of it.
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
//
// Nothing of the first step is on disk. A crash between the steps leaves neither writes nor taken
// items, and the token is unknown after the restart. The client may send the transaction again:
//
//	this transaction    take ······· ✗ crash      restart: nothing is taken, nothing is written
//
// If the caller leaves between the steps, the items are released at once. Otherwise they would
// refuse writes for ever, because no timeout releases them.
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
//
// After Prepare only two things can end a transaction: its context, during the latency, and a log
// that refuses the entry. In both cases the items are released unchanged.
type Transaction struct {
	writes []request.Write
	// effects are by write. After Prepare their items cannot change, because they are taken. The
	// schema of their table can: an index may have come, and must get its entry. The keys of a new
	// index are not checked: an item that does not fit stays out of it.
	effects []request.Effect
	// locks are those of all writes, each once and in the order of lockSet. Every step takes all. A
	// transaction on two items of one shard has one lock for both: locked twice, the shard would
	// wait for its own holder.
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
// billed. Checking and taking happen under all locks at once. The naive design checks and takes one
// item after the other. Two transactions could then each take half and cancel each other:
//
//	A   take x ············ y is taken: cancelled
//	B          take y ············ x is taken: cancelled
//
// Under all locks, the first one takes everything.
//
// The checks do not end at the first failure, because AWS gives one reason for each item, in their
// order. DynamoDB Local leaves some out if a key does not fit. A failed condition hides that its
// partition is full; outside of transactions the full partition hides the condition.
//
// Throughput is asked for here and charged by Commit: a transaction that gets through may overdraw
// once, like any other request.
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

// prepareLocked evaluates a write of a transaction. The conflict comes before the condition: the
// item is about to change, so its condition says nothing. The effect still has the old item, whose
// size is the price of the cancellation.
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
//
// It logs nothing, because taking was not logged.
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
//
// The order of its steps:
//
//	release      first, so that an error of the log leaves nothing taken; the locks still exclude others
//	reindex      if the schema is another one than that of Prepare
//	note         one entry for all writes and the token: a crash leaves all or none
//	settle       the token, under the locks that a checkpoint needs (history.Tokens.Settle)
//	apply        cannot fail
//
// Writes that change nothing are billed, but neither logged nor applied. A stream has no record of
// them, as on AWS.
//
// The table may have been deleted since Prepare. The writes then go into a table that nobody can
// find, and reading the log skips them.
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
// transaction. An expression that does not fit the item cancels with ValidationError, as AWS
// documents. DynamoDB Local refuses the whole request.
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

// The message repeats the codes, as on AWS: many programs only log the message.
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

// NewTransactWrite validates a transaction. An item that does not fit its table does not refuse the
// request. It becomes a write with a Misfit, and is cancelled with the others.
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

// seenOnce returns an error for a transaction that names an item twice. Each item therefore has one
// write, and the order of the writes cannot matter.
func seenOnce(seen map[request.ItemName]bool, t *table.Table, key string) error {
	k := request.ItemName{Table: t, Key: key}
	if seen[k] {
		return api.Validation("Transaction request cannot include multiple operations on one item")
	}
	seen[k] = true
	return nil
}

// transactedWrite holds the parts that the four kinds of operation in a transaction share. The SDK
// has four structs for them without a common interface.
type transactedWrite struct {
	kind              request.WriteKind
	tableName         *string
	item              value.Item // the item of a put, the key of the other kinds
	condition, update *string
	names             map[string]string
	values            value.Item
	onFailure         types.ReturnValuesOnConditionCheckFailure
}

// transactedWrites returns all operations of an item, of which there should be one, so that the
// caller can refuse several.
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

// newTransacted validates one operation. For an item that does not fit the table it returns an
// *[api.MisfitError], but only if everything else is valid.
//
// The expressions are parsed first, into a write without an item. An error in them is one of the
// request and refuses it. Only then can the item cancel the transaction.
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

// Transactor executes transactions. It shares the tables, the log and the clock with the other
// requests.
type Transactor struct {
	*request.Executor

	Tokens *history.Tokens
	// hold waits for the time that a transaction spends between its two steps. It is one more
	// latency of the database. Without a latency it returns at once, and other requests can still
	// come in between.
	hold func(context.Context) error
}

// New returns the transactor beside the executor of other requests.
func New(ex *request.Executor, tokens *history.Tokens, hold func(context.Context) error) *Transactor {
	return &Transactor{ex, tokens, hold}
}
