package manifest

import (
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// ErrChanged says that an apply would not do any more what was shown before it: the
// table changed in between. Nothing was applied.
var ErrChanged = errors.New("the plan changed since it was shown: nothing was applied; look at the new plan, and apply again")

// A HeldError says that another process applies the manifest now, or took it over. It is
// [store.ErrConflict].
type HeldError struct {
	Name string
	// Until is when the hold of the other process ends if it crashes; zero if it has ended.
	Until time.Time
}

// Error names the manifest and says how long to wait at most.
func (e *HeldError) Error() string {
	if e.Until.IsZero() {
		return fmt.Sprintf("another process took over manifest %q and has ended: look at a new plan, and apply again", e.Name)
	}
	return fmt.Sprintf("another process applies manifest %q: wait until it ends, or until %s if it crashed",
		e.Name, e.Until.UTC().Format(time.RFC3339))
}

// Is reports whether target is [store.ErrConflict].
func (e *HeldError) Is(target error) bool { return target == store.ErrConflict }

// An OwnedError says that a level belongs to another manifest. It is
// [store.ErrConflict].
type OwnedError struct{ Owner string }

// Error names the owner and says what to do.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("it belongs to manifest %q: remove it there, or import it with --take-over", e.Owner)
}

// Is reports whether target is [store.ErrConflict].
func (e *OwnedError) Is(target error) bool { return target == store.ErrConflict }
