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
	Misfit       error           // in a transaction: the item does not fit the table, and no other field is set
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
	Old, New *storage.Record // nil: no such item
	was, is  value.Item      // old and new decoded, where needed
	touched  []string        // attributes that may differ; nil: any
	Schema   *table.Schema   // in force when changes were computed
	changes  []indexChange
	units    table.Units // of the table; each change has those of its index
}

// Evaluate computes the effect of the write on the item found, without applying it. A failed
// condition is a *types.ConditionalCheckFailedException, and the effect still has its cost. Any
// other error costs nothing.
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

// resized returns the size of an item that differs from the old one only in the touched
// attributes.
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

// ApplyLocked applies an evaluated write that was noted at pos. The caller has held the table
// shard since the evaluation.
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

// SparesKey returns an error for an update that writes to the key.
func (w *Write) SparesKey() error {
	for _, name := range w.Touched {
		if w.Table.Key.Has(name) {
			return api.Misfit("Cannot update attribute %s. This attribute is part of the key", name)
		}
	}
	return nil
}

// ItemName identifies an item in a database.
type ItemName struct {
	Table *table.Table
	Key   string
}

// Executor executes the requests that read and write items, except for transactions.
type Executor struct {
	Tables *catalog.Tables
	Log    *history.Log
	Now    func() time.Time
}

// New returns the executor of requests on tables.
func New(ts *catalog.Tables, l *history.Log, now func() time.Time) *Executor {
	return &Executor{ts, l, now}
}
