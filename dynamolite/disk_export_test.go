package dynamolite

// CheckpointAfter makes a database write a checkpoint as soon as its log has so many bytes.
func CheckpointAfter(o Options, bytes int64) Options {
	o.checkpointAfter = bytes
	return o
}

// Checkpoint writes a checkpoint now.
func (db *DB) Checkpoint() error { return db.checkpoint() }

// HoldCheckpoint prevents all checkpoints until it is released.
func (db *DB) HoldCheckpoint() (release func(), err error) {
	c, err := db.journal.BeginCheckpoint()
	if err != nil {
		return nil, err
	}
	return c.Abort, nil
}

// Logged returns how many bytes the log has since the last checkpoint.
func (db *DB) Logged() int64 {
	logged, _ := db.journal.Grown()
	return logged
}

// KnownStreams returns how many streams the database keeps.
func (db *DB) KnownStreams() int {
	db.streams.mu.RLock()
	defer db.streams.mu.RUnlock()
	return len(db.streams.streams)
}
