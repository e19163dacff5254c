package journal

import (
	"errors"
	"fmt"
	"syscall"
)

var (
	// ErrClosed is returned by what is called after [Journal.Close], and by a [Checkpoint] that has been committed or aborted.
	ErrClosed = errors.New("journal is closed")

	// ErrLocked is returned, wrapped with the directory, by [Open] if the journal is open already, here or in another process.
	ErrLocked = errors.New("the directory is in use by another process or database; close that one first, or choose another directory")

	// ErrDamaged is what a [*DamagedError] is.
	ErrDamaged = errors.New("journal is damaged")

	// ErrFailed is what a [*FailedError] is.
	ErrFailed = errors.New("journal has failed")

	// ErrTooLarge is returned, wrapped, for an entry of more than [MaxEntryBytes].
	ErrTooLarge = errors.New("entry is too large for the journal")

	// ErrCheckpointing is returned by [Journal.BeginCheckpoint] while another checkpoint is neither committed nor aborted.
	ErrCheckpointing = errors.New("another checkpoint is being written; commit or abort it first")

	// errNeverAppended is about a position that the caller cannot have from Append.
	errNeverAppended = errors.New("no entry has this position")
)

// DamagedError says where a journal cannot be read as it was written. [Open] returns it wrapped, without having changed any file.
type DamagedError struct {
	File   string // its path
	Offset int64  // in File, in bytes
	Reason string // what is wrong there
	Remedy string // what the operator can do, and which entries that costs
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%v: %s at byte %d: %s; nothing has been changed: %s", ErrDamaged, e.File, e.Offset, e.Reason, e.Remedy)
}

// Is reports whether target is [ErrDamaged].
func (e *DamagedError) Is(target error) bool { return target == ErrDamaged }

// FailedError says why a journal stopped. Every later Append, and every Wait for an entry that was not on disk by then, returns it.
type FailedError struct {
	Durable Position // the last entry that is on disk
	Err     error    // what went wrong
}

func (e *FailedError) Error() string {
	remedy := "check the disk"
	if errors.Is(e.Err, syscall.ENOSPC) {
		remedy = "free space on the disk"
	}
	return fmt.Sprintf("%v: %v; entries after %d are not safe: %s, then open the directory again", ErrFailed, e.Err, e.Durable, remedy)
}

// Is reports whether target is [ErrFailed].
func (e *FailedError) Is(target error) bool { return target == ErrFailed }

// Unwrap is what went wrong.
func (e *FailedError) Unwrap() error { return e.Err }
