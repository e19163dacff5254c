package dynamolite

// Immediate reports whether operations return without any wait except for each other's short
// critical sections: no I/O and no timer. Callers may then call them where they must not wait.
func (db *DB) Immediate() bool { return db.journal == nil && db.latencies == nil }
