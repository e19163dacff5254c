package dynamolite

// CheckpointAfter makes a database write a checkpoint as soon as its log has so many bytes.
func CheckpointAfter(o Options, bytes int64) Options {
	o.checkpointAfter = bytes
	return o
}

// Checkpoint writes one now.
func (db *DB) Checkpoint() error { return db.checkpoint() }
