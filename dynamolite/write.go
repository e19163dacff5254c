package dynamolite

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// writeKind is what a write does to its item.
type writeKind int

const (
	writePut writeKind = iota
	writeUpdate
	writeDelete
	writeCheck // a condition alone, in a transaction
)

// write is one write, parsed and validated as far as that goes without the item.
type write struct {
	kind         writeKind
	table        *table
	key          itemKey
	cond         *expr.Condition // nil: always
	oldOnFailure bool            // a failed condition carries the item
	put          *record         // writePut: what to store
	update       *expr.Update    // writeUpdate: nil means the key alone
	touched      []string        // attributes that update writes
	misfit       error           // in a transaction: the item does not fit the table, and nothing else is set
}

// effect is an evaluated write: what to do and what it costs.
type effect struct {
	old, new *record // nil: no such item
	changes  []indexChange
	units    units // of the table; those of an index are with its change
}

// evaluate works out what the write does to the item found, without doing it. A failed condition is
// a *types.ConditionalCheckFailedException, for which the effect still says what it costs; any other error costs nothing.
func (w *write) evaluate(old *record) (effect, error) {
	e := effect{old: old, new: old}
	if w.misfit != nil {
		return e, w.misfit
	}
	if w.cond != nil {
		met, err := w.cond.Eval(itemOf(old))
		if err != nil {
			return e, err
		}
		if !met {
			e.units = writeUnits(sizeOf(old))
			return e, w.conditionFailure(old)
		}
	}
	var touched []string // nil: all may differ
	switch w.kind {
	case writePut:
		e.new = w.put
	case writeDelete:
		e.new = nil
	case writeUpdate:
		if old != nil {
			touched = w.touched
		}
		updated, err := w.updated(old, touched)
		if err != nil {
			return e, err
		}
		e.new = updated
	case writeCheck:
	}
	e.units = writeUnits(max(sizeOf(old), sizeOf(e.new)))
	if old == e.new || w.table.unindexed(touched) {
		return e, nil
	}
	for _, x := range w.table.indexes {
		if c, ok := x.change(old, e.new, touched); ok {
			e.changes = append(e.changes, c)
		}
	}
	return e, nil
}

func (w *write) conditionFailure(old *record) error {
	if w.oldOnFailure && old != nil {
		return conditionFailed(value.Clone(old.item))
	}
	return conditionFailed(nil)
}

// updated is the record after an update that touches the given attributes of an existing item.
func (w *write) updated(old *record, touched []string) (*record, error) {
	if w.update == nil && old != nil {
		return old, nil
	}
	var key value.Item
	if old == nil {
		var err error
		if key, err = w.key.item(&w.table.key); err != nil {
			return nil, err
		}
		if w.update == nil {
			return &record{key: w.key.full, item: key, size: value.Size(key)}, nil
		}
	}
	item, err := w.update.Apply(itemOf(old), key)
	if err != nil {
		return nil, err
	}
	r := &record{item: item}
	if old == nil {
		r.key, r.size = w.key.full, value.Size(item)
	} else {
		r.key, r.size = old.key, resize(old, item, touched)
	}
	if r.size > maxItem {
		return nil, validation("Item size to update has exceeded the maximum allowed size")
	}
	return r, w.table.checkIndexKeys(item, touched)
}

// resize is the size of an item that differs from a record in the touched attributes only.
func resize(old *record, item value.Item, touched []string) int {
	size := old.size
	for _, name := range touched {
		if v, ok := old.item[name]; ok {
			size -= attributeSize(name, v)
		}
		if v, ok := item[name]; ok {
			size += attributeSize(name, v)
		}
	}
	return size
}

// applyLocked does what evaluate found out. The caller has held the table shard since.
func (w *write) applyLocked(e *effect) {
	s := w.table.shard(&w.key)
	switch e.new {
	case e.old:
		return
	case nil:
		s.deleteLocked(e.old.key)
	default:
		s.setLocked(e.new)
	}
	for i := range e.changes {
		e.changes[i].apply()
	}
}

// execute evaluates and applies a write on its own.
func (w *write) execute() (effect, error) {
	s := w.table.shard(&w.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := w.evaluate(s.getLocked(w.key.full))
	if err == nil {
		w.applyLocked(&e)
	}
	return e, err
}

// perform executes the write of a request of its own and enters its bill.
func (w *write) perform(op operation) (effect, bill, error) {
	e, err := w.execute()
	b := bill{table: w.table}
	if e.units > 0 {
		b.addWrite(&e)
		b.enter(op)
	}
	return e, b, err
}

// conditional parses the condition of a write and what to return when it fails.
func (w *write) conditional(condition *string, onFailure types.ReturnValuesOnConditionCheckFailure, env *expr.Env) (err error) {
	if w.oldOnFailure, err = wantsOldOnFailure(onFailure); err != nil {
		return err
	}
	if condition != nil {
		w.cond, err = expr.ParseCondition(*condition, env)
	}
	return err
}

// newPut makes the record to put of a request's item.
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
	if err := t.checkIndexKeys(item, nil); err != nil {
		return w, err
	}
	w.put = &record{key: w.key.full, item: item, size: value.Size(item)}
	if w.put.size > maxItem {
		return w, validation("Item size has exceeded the maximum allowed size")
	}
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

// sparesKey refuses an update that writes to the key.
func (w *write) sparesKey() error {
	for _, name := range w.touched {
		if w.table.key.has(name) {
			return misfit("Cannot update attribute %s. This attribute is part of the key", name)
		}
	}
	return nil
}

func sizeOf(r *record) int {
	if r == nil {
		return 0
	}
	return r.size
}

func itemOf(r *record) value.Item {
	if r == nil {
		return nil
	}
	return r.item
}
