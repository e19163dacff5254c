package dynamolite

// alter replaces a table's schema by a changed clone of it, between two writes. An error of change
// leaves the schema as it is. Alterations of one table follow one another.
func (db *DB) alter(c *call, t *table, change func(*schema) error) error {
	t.altering.Lock()
	defer t.altering.Unlock()
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
	t.current.Store(next)
	return nil
}
