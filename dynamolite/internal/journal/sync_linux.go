package journal

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData leaves out what fsync would write but no reader needs, the time of the change above all.
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
