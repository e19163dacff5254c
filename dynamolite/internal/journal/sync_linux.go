package journal

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData omits metadata that fsync would write but no reader needs, above all the time of the
// change.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}
