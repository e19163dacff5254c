//go:build !linux

package benchmarks_test

import "os"

// syncData does the minimum that makes data durable.
func syncData(f *os.File) error { return f.Sync() }
