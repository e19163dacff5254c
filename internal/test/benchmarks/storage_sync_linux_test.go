package benchmarks_test

import (
	"os"
	"syscall"
)

// syncData does the minimum that makes data durable.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
