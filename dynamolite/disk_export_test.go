package dynamolite

// CheckpointAfter makes a database write a checkpoint as soon as its log has so many bytes.
func CheckpointAfter(o Options, bytes int64) Options {
	o.checkpointAfter = bytes
	return o
}

// Checkpoint writes a checkpoint now.
func (db *DB) Checkpoint() error { return db.tables.Checkpoint() }

// HoldCheckpoint prevents all checkpoints until it is released.
func (db *DB) HoldCheckpoint() (release func(), err error) {
	c, err := db.log.Journal.BeginCheckpoint()
	if err != nil {
		return nil, err
	}
	return c.Abort, nil
}

// Logged returns how many bytes the log has since the last checkpoint.
func (db *DB) Logged() int64 {
	logged, _ := db.log.Journal.Grown()
	return logged
}

// KnownStreams returns how many streams the database keeps.
func (db *DB) KnownStreams() int { return len(db.streams.Images()) }
