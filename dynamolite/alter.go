package dynamolite

// alter replaces a table's schema by a changed clone of it, between two writes. An error of change
// leaves the schema as it is. Alterations of one table follow one another; a deleted table has no more.
func (db *DB) alter(c *call, t *table, change func(*schema) error) error {
	t.altering.Lock()
	defer t.altering.Unlock()
	if t.retired {
		return notFound(t.name)
	}
	next := t.schema().clone()
	if err := change(next); err != nil {
		return err
	}
	t.lockAll()
	defer t.unlockAll()
	pos, err := db.noteTable(t, next)
	if err != nil {
		return err
	}
	c.sees(pos)
	db.measure(t, next)
	t.current.Store(next)
	return nil
}

// retire ends a table's part in the log and its stream. What still writes to it then writes to nothing.
func (db *DB) retire(c *call, t *table) error {
	t.altering.Lock()
	defer t.altering.Unlock()
	t.lockAll()
	defer t.unlockAll()
	pos, err := db.noteDrop(t)
	if err != nil {
		return err
	}
	c.sees(pos)
	t.retired = true
	last := t.schema().clone()
	if last.stream != nil {
		last.stream.disable(sequence(pos, 0), db.now())
		last.stream = nil
	}
	t.current.Store(last)
	return nil
}
