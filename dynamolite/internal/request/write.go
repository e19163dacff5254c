// Package request executes what reads and writes items: it validates a request into a typed one,
// evaluates it, bills it, and applies it.
//
// Invariants: an evaluation has no effect, and an application cannot fail. What is refused is refused
// between the two, with the locks held, so nothing is ever half done.
package request

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/catalog"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/history"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// WriteKind is the kind of a write.
type WriteKind int

// The kinds of writes.
const (
	WritePut WriteKind = iota
	WriteUpdate
	WriteDelete
	WriteCheck // only a condition, in a transaction
)

// Write is one write, parsed and validated as far as possible without the item.
//
// A put is encoded before its shard is locked, because its record depends on the request alone.
// Encoding it under the lock would keep all writers of the shard waiting. An update depends on the
// item, so it is encoded under the lock.
//
// One goroutine owns a write. It is evaluated and applied at most once.
type Write struct {
	Kind         WriteKind
	Table        *table.Table
	Key          storage.ItemKey
	Cond         *expr.Condition // nil: always
	OldOnFailure bool            // a failed condition carries the item
	put          *storage.Record // WritePut: the item to store
	item         value.Item      // WritePut: the same, decoded
	Update       *expr.Update    // WriteUpdate: nil means the key alone
	Touched      []string        // attributes that Update writes
	// Misfit is the reason that the item of a transaction does not fit the table. Besides it, only
	// Table is set. The key is zero, so its lock is that of shard 0, and no item is found or taken.
	Misfit error
}

// Effect is an evaluated write: the change and its cost. It is right as long as the item and the
// schema are those of the evaluation. The lock of the shard keeps both. A transaction, which
// releases the lock, takes the item instead and looks at the schema again.
//
// The naive design applies a write while it evaluates it, and undoes it if something refuses it.
// Conditions, the size of the item, the keys of its indexes, the throughput of each partition and
// the disk can all refuse. Each would need its own undoing, of the item and of up to 25 indexes,
// which readers do not lock.
type Effect struct {
	// Old and New are nil if there is no such item. They are the same pointer if the write stores
	// nothing: a check, or an update without an expression of an existing item.
	Old, New *storage.Record
	// was and is are old and new decoded, where needed. They may share values, so neither is
	// changed before the effect is applied. A put or a delete without a condition needs neither,
	// unless an index or a comparison asks.
	was, is value.Item
	// touched are the attributes that may differ; nil: any. Old and New are equal in all others, so
	// only these are compared and indexed.
	touched []string
	Schema  *table.Schema // in force when changes were computed
	changes []indexChange
	// units is the price of the write on the table; each change has that on its index. It is 0 if
	// the evaluation failed for another reason than its condition: such a request is not billed.
	units table.Units
}

// Evaluate computes the effect of the write on the item found, without applying it. A failed
// condition is a *types.ConditionalCheckFailedException, and the effect still has its cost. Any
// other error costs nothing.
//
// The condition comes before the update, so a failed condition hides an update that does not fit
// the item. The price is by the larger of the two items, as AWS documents for PutItem and
// UpdateItem.
//
// The caller holds the lock of the item's shard until it has applied the effect, or takes the item
// for a transaction.
func (w *Write) Evaluate(old *storage.Record) (Effect, error) {
	e := Effect{Old: old, New: old, Schema: w.Table.Schema()}
	if w.Misfit != nil {
		return e, w.Misfit
	}
	if w.Cond != nil || w.Kind == WriteUpdate && w.Update != nil {
		e.was = old.Item()
	}
	if w.Cond != nil {
		met, err := w.Cond.Eval(e.was)
		if err != nil {
			return e, err
		}
		if !met {
			e.units = table.WriteUnits(old.Bytes())
			return e, w.conditionFailure(&e)
		}
	}
	switch w.Kind {
	case WritePut:
		e.New, e.is = w.put, w.item
	case WriteDelete:
		e.New = nil
	case WriteUpdate:
		if err := w.evaluateUpdate(&e); err != nil {
			return e, err
		}
	case WriteCheck:
	}
	e.units = table.WriteUnits(max(old.Bytes(), e.New.Bytes()))
	e.Reindex()
	return e, nil
}

// evaluateUpdate makes the record after an update.
//
// The size limit and the index keys are checked on the result. Nothing before it can check them: an
// update may add to a number, append to a list, or copy another attribute.
//
// An existing item is not encoded anew. Its unchanged attributes are copied as they are, so the
// time under the lock follows the touched attributes. The key is the string of the old record.
func (w *Write) evaluateUpdate(e *Effect) error {
	var key value.Item
	switch {
	case e.Old == nil:
		var err error
		if key, err = w.Key.Item(&w.Table.Key); err != nil {
			return err
		}
	case w.Update == nil:
		return nil
	default:
		e.touched = w.Touched
	}
	if w.Update == nil {
		e.is = key
		e.New = storage.NewRecord(w.Key.Full, key, value.Size(key))
		return nil
	}
	var err error
	if e.is, err = w.Update.Apply(e.was, key); err != nil {
		return err
	}
	if e.Old == nil {
		e.New = storage.NewRecord(w.Key.Full, e.is, value.Size(e.is))
	} else {
		e.New = &storage.Record{Key: e.Old.Key, Data: value.Update(e.Old.Data, e.is, e.touched), Size: e.resized()}
	}
	if e.New.Size > maxItem {
		return api.Validation("Item size to update has exceeded the maximum allowed size")
	}
	return e.Schema.CheckIndexKeys(e.is, e.touched)
}

// resized returns the size of an item that differs from the old one only in the touched attributes.
// It equals the size that a walk over all attributes would sum up. The walk would take place under
// the lock.
func (e *Effect) resized() int {
	size := e.Old.Size
	for _, name := range e.touched {
		if v, ok := e.was[name]; ok {
			size -= storage.AttributeSize(name, v)
		}
		if v, ok := e.is[name]; ok {
			size += storage.AttributeSize(name, v)
		}
	}
	return size
}

// Reindex computes the effect of the write on the indexes of the schema.
//
// It may run twice. A transaction calls it again if an index has come or gone between its two
// steps.
func (e *Effect) Reindex() {
	e.changes = nil
	if e.Old == e.New || e.Schema.Unindexed(e.touched) {
		return
	}
	for _, x := range e.Schema.Indexes {
		if c, ok := e.changeOf(x); ok {
			e.changes = append(e.changes, c)
		}
	}
}

// decode makes sure that was and is are set.
func (e *Effect) decode() {
	if e.was == nil {
		e.was = e.Old.Item()
	}
	if e.is == nil {
		e.is = e.New.Item()
	}
}

// Same reports whether the write changes nothing.
//
// AWS writes no stream record for a write that changes no data (documentation of DynamoDB Streams).
// Sizes are compared first, because they need no decoding.
func (e *Effect) Same() bool {
	switch {
	case e.Old == e.New:
		return true
	case e.Old == nil || e.New == nil || e.Old.Size != e.New.Size:
		return false
	case e.touched == nil:
		e.decode()
		return value.EqualItems(e.was, e.is)
	}
	for _, name := range e.touched {
		if !sameAttribute(e.was[name], e.is[name]) {
			return false
		}
	}
	return true
}

// conditionFailure returns the error of a failed condition, with the old image if the request
// asks for it.
func (w *Write) conditionFailure(e *Effect) error {
	if w.OldOnFailure {
		return api.ConditionFailed(e.was)
	}
	return api.ConditionFailed(nil)
}

// Change returns the change in the form for the log and the stream.
func (w *Write) Change(e *Effect) history.Change {
	return history.Change{Table: w.Table, Shard: w.Key.Shard, Old: e.Old, New: e.New}
}

// ApplyLocked applies an evaluated write that was noted at pos. The caller has held the table shard
// since the evaluation. It cannot fail: whatever could refuse the write was asked before.
//
// The expiry is noted under the same lock as the item. The sweep forgets the earliest expiry of a
// shard, and then reads the items under their lock. It therefore meets the write in one place or
// the other:
//
//	sweep    forget the earliest ······················ lock · read a · unlock
//	write                          lock · a · lower · unlock
func (w *Write) ApplyLocked(e *Effect, pos journal.Position) {
	s := w.Table.Shard(&w.Key)
	switch e.New {
	case e.Old:
		return
	case nil:
		s.DeleteLocked(e.Old.Key, pos)
	default:
		s.SetLocked(e.New, pos)
		e.Schema.Expiries.Wrote(w.Key.Shard, e.New, e.touched)
	}
	for i := range e.changes {
		e.changes[i].apply(pos)
	}
}

// execute evaluates and applies a write outside of transactions.
//
//	lock · taken? · evaluate · room? · note · apply · unlock
//
// The price is known only after the evaluation: it depends on the sizes of the old and the new item
// and on the indexes that change. A failed condition has a price too, and can be throttled. A
// throttled write hides whether its condition holds, as on AWS.
//
// The lock ends before the disk has the entry. A lock that lasted until the sync would admit one
// write of each shard to a group. Whoever reads the item meanwhile waits for the same entry before
// it answers ([api.Call.Seen]).
//
// A refused write has seen the shard, too: its answer must not rest on a write that a crash undoes.
func (w *Write) execute(ex *Executor, c *api.Call) (Effect, error) {
	s := w.Table.Shard(&w.Key)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	c.See(s.Latest)
	if s.TakenLocked(w.Key.Full) {
		return Effect{}, api.Conflict()
	}
	e, err := w.Evaluate(s.GetLocked(w.Key.Full))
	if e.units > 0 {
		if throttled := ex.admit(w.Demands(&e, single)); throttled != nil {
			return Effect{}, throttled
		}
	}
	if err != nil || e.Old == e.New || ex.Log.Recorded(e.Schema) && e.Same() {
		return e, err
	}
	pos, err := ex.Log.Note(nil, w.Change(&e))
	if err != nil {
		return Effect{}, err
	}
	c.See(pos)
	w.ApplyLocked(&e, pos)
	return e, nil
}

// perform executes the write of a single-write request and enters its bill.
//
// A failed condition is in the bill, as AWS documents. A throttled write and an invalid one have no
// price and no entry.
func (w *Write) perform(ex *Executor, c *api.Call) (Effect, Bill, error) {
	e, err := w.execute(ex, c)
	b := Bill{table: w.Table}
	if e.units > 0 {
		b.AddWrite(&e)
		b.enter(c.Op)
	}
	return e, b, err
}

// Conditional parses the condition of a write and whether a failure returns the item.
func (w *Write) Conditional(condition *string, onFailure types.ReturnValuesOnConditionCheckFailure, env *expr.Env) (err error) {
	if err := api.OneOfOrNone("returnValuesOnConditionCheckFailure", onFailure,
		types.ReturnValuesOnConditionCheckFailureAllOld, types.ReturnValuesOnConditionCheckFailureNone); err != nil {
		return err
	}
	w.OldOnFailure = onFailure == types.ReturnValuesOnConditionCheckFailureAllOld
	if condition != nil {
		w.Cond, err = expr.ParseCondition(*condition, env)
	}
	return err
}

// NewWrite makes a write of an item in a request. A put has the item; the other kinds have its key.
//
// What it checks needs no lock. The transaction and the batch validate all their writes before they
// execute the first.
func NewWrite(t *table.Table, kind WriteKind, item value.Item) (w Write, err error) {
	w = Write{Kind: kind, Table: t}
	if kind == WritePut {
		err = w.putting(item)
		return w, err
	}
	if item == nil {
		return w, api.Missing("Key")
	}
	w.Key, err = t.Key.Of(item)
	return w, err
}

// putting makes the record that a put stores.
//
// The index keys are checked against the schema of this moment. An index may come before the write
// has its lock. An item with an unfit attribute is then left out of it, as older items are
// ([table.Index.EntryKey]).
func (w *Write) putting(item value.Item) (err error) {
	if item == nil {
		return api.Missing("Item")
	}
	if item, err = value.NormalizeItem(item); err != nil {
		return err
	}
	if w.Key, err = w.Table.Key.OfItem(item); err != nil {
		return err
	}
	if err := w.Table.Schema().CheckIndexKeys(item, nil); err != nil {
		return err
	}
	size := value.Size(item)
	if size > maxItem {
		return api.Validation("Item size has exceeded the maximum allowed size")
	}
	w.item, w.put = item, storage.NewRecord(w.Key.Full, item, size)
	return nil
}

// Updating parses an update expression.
func (w *Write) Updating(expression string, env *expr.Env) (err error) {
	if w.Update, err = expr.ParseUpdate(expression, env); err != nil {
		return err
	}
	w.Touched = w.Update.TopLevel()
	return nil
}

// SparesKey returns an error for an update that writes to the key. It is apart from the parsing,
// because a transaction parses all expressions before it looks at items.
func (w *Write) SparesKey() error {
	for _, name := range w.Touched {
		if w.Table.Key.Has(name) {
			return api.Misfit("Cannot update attribute %s. This attribute is part of the key", name)
		}
	}
	return nil
}

// ItemName identifies an item in a database.
//
// It has the table and not its name, because one request may name a table by its name and by its
// ARN. A transaction and a batch may name each item once.
type ItemName struct {
	Table *table.Table
	Key   string
}

// Executor executes the requests that read and write items, except for transactions. It has no
// state of its own. It is safe for concurrent use.
type Executor struct {
	Tables *catalog.Tables
	Log    *history.Log
	Now    func() time.Time
}

// New returns the executor of requests on tables.
func New(ts *catalog.Tables, l *history.Log, now func() time.Time) *Executor {
	return &Executor{ts, l, now}
}
