//go:build !linux

package benchmarks_test

import "os"

// syncData is the least that makes data last.
func syncData(f *os.File) error { return f.Sync() }
