//go:build !linux

package journal

import "os"

// syncData is fsync, which also writes metadata that no reader needs. On macOS the standard library
// also empties the cache of the disk, which fsync alone does not do there.
func syncData(f *os.File) error { return f.Sync() }
