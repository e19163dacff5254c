package dynamolite

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// writeKind is the kind of a write.
type writeKind int

const (
	writePut writeKind = iota
	writeUpdate
	writeDelete
	writeCheck // only a condition, in a transaction
)

// write is one write, parsed and validated as far as possible without the item.
type write struct {
	kind         writeKind
	table        *table
	key          itemKey
	cond         *expr.Condition // nil: always
	oldOnFailure bool            // a failed condition carries the item
	put          *record         // writePut: the item to store
	item         value.Item      // writePut: the same, decoded
	update       *expr.Update    // writeUpdate: nil means the key alone
	touched      []string        // attributes that update writes
	misfit       error           // in a transaction: the item does not fit the table, and no other field is set
}

// effect is an evaluated write: the change and its cost.
type effect struct {
	old, new *record    // nil: no such item
	was, is  value.Item // old and new decoded, where needed
	touched  []string   // attributes that may differ; nil: any
	schema   *schema    // in force when changes were computed
	changes  []indexChange
	units    units // of the table; each change has those of its index
}

// evaluate computes the effect of the write on the item found, without applying it. A failed
// condition is a *types.ConditionalCheckFailedException, and the effect still has its cost. Any
// other error costs nothing.
func (w *write) evaluate(old *record) (effect, error) {
	e := effect{old: old, new: old, schema: w.table.schema()}
	if w.misfit != nil {
		return e, w.misfit
	}
	if w.cond != nil || w.kind == writeUpdate && w.update != nil {
		e.was = old.item()
	}
	if w.cond != nil {
		met, err := w.cond.Eval(e.was)
		if err != nil {
			return e, err
		}
		if !met {
			e.units = writeUnits(old.bytes())
			return e, w.conditionFailure(&e)
		}
	}
	switch w.kind {
	case writePut:
		e.new, e.is = w.put, w.item
	case writeDelete:
		e.new = nil
	case writeUpdate:
		if err := w.evaluateUpdate(&e); err != nil {
			return e, err
		}
	case writeCheck:
	}
	e.units = writeUnits(max(old.bytes(), e.new.bytes()))
	e.reindex()
	return e, nil
}

// evaluateUpdate makes the record after an update.
func (w *write) evaluateUpdate(e *effect) error {
	var key value.Item
	switch {
	case e.old == nil:
		var err error
		if key, err = w.key.item(&w.table.key); err != nil {
			return err
		}
	case w.update == nil:
		return nil
	default:
		e.touched = w.touched
	}
	if w.update == nil {
		e.is = key
		e.new = newRecord(w.key.full, key, value.Size(key))
		return nil
	}
	var err error
	if e.is, err = w.update.Apply(e.was, key); err != nil {
		return err
	}
	if e.old == nil {
		e.new = newRecord(w.key.full, e.is, value.Size(e.is))
	} else {
		e.new = &record{key: e.old.key, data: value.Update(e.old.data, e.is, e.touched), size: e.resized()}
	}
	if e.new.size > maxItem {
		return validation("Item size to update has exceeded the maximum allowed size")
	}
	return e.schema.checkIndexKeys(e.is, e.touched)
}

// resized returns the size of an item that differs from the old one only in the touched
// attributes.
func (e *effect) resized() int {
	size := e.old.size
	for _, name := range e.touched {
		if v, ok := e.was[name]; ok {
			size -= attributeSize(name, v)
		}
		if v, ok := e.is[name]; ok {
			size += attributeSize(name, v)
		}
	}
	return size
}

// reindex computes the effect of the write on the indexes of the schema.
func (e *effect) reindex() {
	e.changes = nil
	if e.old == e.new || e.schema.unindexed(e.touched) {
		return
	}
	for _, x := range e.schema.indexes {
		if c, ok := x.change(e); ok {
			e.changes = append(e.changes, c)
		}
	}
}

// decode makes sure that was and is are set.
func (e *effect) decode() {
	if e.was == nil {
		e.was = e.old.item()
	}
	if e.is == nil {
		e.is = e.new.item()
	}
}

// same reports whether the write changes nothing.
func (e *effect) same() bool {
	switch {
	case e.old == e.new:
		return true
	case e.old == nil || e.new == nil || e.old.size != e.new.size:
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
func (w *write) conditionFailure(e *effect) error {
	if w.oldOnFailure {
		return conditionFailed(e.was)
	}
	return conditionFailed(nil)
}

// change returns the change in the form for the log and the stream.
func (w *write) change(e *effect) change {
	return change{table: w.table, shard: w.key.shard, old: e.old, new: e.new}
}

// applyLocked applies an evaluated write that was noted at pos. The caller has held the table
// shard since the evaluation.
func (w *write) applyLocked(e *effect, pos position) {
	s := w.table.shard(&w.key)
	switch e.new {
	case e.old:
		return
	case nil:
		s.deleteLocked(e.old.key, pos)
	default:
		s.setLocked(e.new, pos)
		e.schema.expiries.wrote(w.key.shard, e)
	}
	for i := range e.changes {
		e.changes[i].apply(pos)
	}
}

// execute evaluates and applies a write outside of transactions.
func (w *write) execute(db *DB, c *call) (effect, error) {
	s := w.table.shard(&w.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.sees(s.latest)
	if s.takenLocked(w.key.full) {
		return effect{}, conflict()
	}
	e, err := w.evaluate(s.getLocked(w.key.full))
	if e.units > 0 {
		if throttled := db.admit(w.demands(db, &e, single)); throttled != nil {
			return effect{}, throttled
		}
	}
	if err != nil || e.old == e.new || db.recorded(e.schema) && e.same() {
		return e, err
	}
	pos, err := db.note(nil, w.change(&e))
	if err != nil {
		return effect{}, err
	}
	c.sees(pos)
	w.applyLocked(&e, pos)
	return e, nil
}

// perform executes the write of a single-write request and enters its bill.
func (w *write) perform(db *DB, c *call) (effect, bill, error) {
	e, err := w.execute(db, c)
	b := bill{table: w.table}
	if e.units > 0 {
		b.addWrite(&e)
		b.enter(c.op)
	}
	return e, b, err
}

// conditional parses the condition of a write and whether a failure returns the item.
func (w *write) conditional(condition *string, onFailure types.ReturnValuesOnConditionCheckFailure, env *expr.Env) (err error) {
	if w.oldOnFailure, err = wantsOldOnFailure(onFailure); err != nil {
		return err
	}
	if condition != nil {
		w.cond, err = expr.ParseCondition(*condition, env)
	}
	return err
}

// newPut makes a put of the item in a request.
func (t *table) newPut(item value.Item) (w write, err error) {
	w = write{kind: writePut, table: t}
	if item == nil {
		return w, missing("Item")
	}
	if item, err = value.NormalizeItem(item); err != nil {
		return w, err
	}
	if w.key, err = t.keyOfItem(item); err != nil {
		return w, err
	}
	if err := t.schema().checkIndexKeys(item, nil); err != nil {
		return w, err
	}
	size := value.Size(item)
	if size > maxItem {
		return w, validation("Item size has exceeded the maximum allowed size")
	}
	w.item, w.put = item, newRecord(w.key.full, item, size)
	return w, nil
}

// newKeyed makes a write that names its item by key.
func (t *table) newKeyed(kind writeKind, key value.Item) (w write, err error) {
	w = write{kind: kind, table: t}
	if key == nil {
		return w, missing("Key")
	}
	w.key, err = t.keyOf(key)
	return w, err
}

// updating parses an update expression.
func (w *write) updating(expression string, env *expr.Env) (err error) {
	if w.update, err = expr.ParseUpdate(expression, env); err != nil {
		return err
	}
	w.touched = w.update.TopLevel()
	return nil
}

// sparesKey returns an error for an update that writes to the key.
func (w *write) sparesKey() error {
	for _, name := range w.touched {
		if w.table.key.has(name) {
			return misfit("Cannot update attribute %s. This attribute is part of the key", name)
		}
	}
	return nil
}
