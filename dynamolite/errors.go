package dynamolite

import (
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/catalog"
)

var (
	// ErrClosed is returned, wrapped, by every operation on a [DB] after [DB.Close].
	ErrClosed = catalog.ErrClosed
	// ErrInUse is returned, wrapped, by [Open] for a directory that another process or database
	// has open.
	ErrInUse = errors.New("dynamolite: the directory is in use")
	// ErrDamaged is returned by [Open] for a directory whose files are not as they were written.
	// It is wrapped with the place and the remedy. Nothing has been changed.
	ErrDamaged = errors.New("dynamolite: the data on disk is damaged")
	// ErrDiskFailed is returned, wrapped, by every operation once the disk has failed to take a
	// write. The data in memory no longer equals the data on disk. Open the directory again.
	ErrDiskFailed = errors.New("dynamolite: the disk has failed")
)

// OptionError names an option with an invalid value and says why the value is invalid.
type OptionError struct {
	Option  string // "Limits.Burst", "latency"
	Value   string
	Problem string // continues the sentence after the value
}

// Error names the option, its value, and what is wrong with it.
func (e *OptionError) Error() string {
	return fmt.Sprintf("dynamolite: option %s: %q %s", e.Option, e.Value, e.Problem)
}
