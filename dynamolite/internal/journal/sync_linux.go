package journal

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData omits metadata that fsync would write but no reader needs, above all the time of the
// change.
//
// A change of the file's length is among what fdatasync does write. That is why the log is extended
// in large steps. EINTR is no failure of the disk; any other error is final for the journal.
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
