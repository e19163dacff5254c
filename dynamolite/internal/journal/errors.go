package journal

import (
	"errors"
	"fmt"
	"syscall"
)

var (
	// ErrClosed is returned by calls after [Journal.Close], and by a [Checkpoint] that has been
	// committed or aborted.
	ErrClosed = errors.New("journal is closed")

	// ErrLocked is returned, wrapped with the directory, by [Open] if this or another process
	// already has the journal open.
	ErrLocked = errors.New("the directory is in use by another process or database; close that one first, or choose another directory")

	// ErrDamaged matches every [*DamagedError].
	ErrDamaged = errors.New("journal is damaged")

	// ErrFailed matches every [*FailedError].
	ErrFailed = errors.New("journal has failed")

	// ErrTooLarge is returned, wrapped, for an entry of more than [MaxEntryBytes].
	ErrTooLarge = errors.New("entry is too large for the journal")

	// ErrCheckpointing is returned by [Journal.BeginCheckpoint] while another checkpoint is neither committed nor aborted.
	ErrCheckpointing = errors.New("another checkpoint is being written; commit or abort it first")

	// errNeverAppended is for a position that Append has never returned.
	errNeverAppended = errors.New("no entry has this position")
)

// DamagedError says where a journal is not readable as it was written. [Open] returns it wrapped,
// without having changed any file.
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
	Err     error    // the error that stopped the journal
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

// Unwrap returns the error that stopped the journal.
func (e *FailedError) Unwrap() error { return e.Err }
