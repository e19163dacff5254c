// Package hot keeps what is read from files up to date: rules and certificates, for instance,
// while they are used.
package hot

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Every is how often files are read.
const Every = 2 * time.Second

// Files are the contents of files by their names.
type Files map[string][]byte

// Names are the names of the files, in order.
func (f Files) Names() []string { return slices.Sorted(maps.Keys(f)) }

func (f Files) equal(other Files) bool { return maps.EqualFunc(f, other, bytes.Equal) }

// A Source reads files, and makes a value of them.
type Source[T any] struct {
	Read  func() (Files, error)
	Parse func(Files) (T, error)
}

// A Value is what files say. Changed files replace it, unless they are not valid.
//
// A file that is being written may be valid and not whole. So files count only if two readings in
// turn have found them alike.
type Value[T any] struct {
	source Source[T]
	now    func() time.Time
	live   atomic.Pointer[T]

	mu      sync.Mutex
	seen    Files // by the last reading
	last    Files // that were parsed last
	invalid error // why those are not valid
	state   State
}

// A State is what became of the files.
type State struct {
	// Files are the names of those that were read last.
	Files []string `json:"files"`
	// Loaded is when those in use were read.
	Loaded time.Time `json:"loaded_at"`
	// Loads and Failures are how often the files have changed since the start: to what is valid, and
	// to what is not.
	Loads    int `json:"loads"`
	Failures int `json:"failures"`
	// Error is why the files, as they are now, are not in use; "" if they are.
	Error string `json:"error,omitempty"`
}

// Open reads files for the first time.
func Open[T any](s Source[T], now func() time.Time) (*Value[T], error) {
	files, err := s.Read()
	if err != nil {
		return nil, err
	}
	first, err := s.Parse(files)
	if err != nil {
		return nil, err
	}
	v := &Value[T]{source: s, now: now, seen: files, last: files, state: State{Files: files.Names(), Loaded: now(), Loads: 1}}
	v.live.Store(&first)
	return v, nil
}

// Get is the value. A call asks once, so that it does not see two values.
func (v *Value[T]) Get() T { return *v.live.Load() }

// State is what became of the files so far.
func (v *Value[T]) State() State {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state
}

// Watch reads the files until the context ends, and logs changes. The name says what they are.
func (v *Value[T]) Watch(ctx context.Context, log *slog.Logger, name string) {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if was, is := v.look(); is.Error != was.Error && is.Error != "" {
			log.ErrorContext(ctx, "files are not valid: the last good ones stay in use", "files", name, "text", is.Error)
		} else if is.Loads > was.Loads || is.Error != was.Error {
			log.InfoContext(ctx, "files are in use", "files", name)
		}
	}
}

// look reads the files once, and returns the state before and after.
func (v *Value[T]) look() (was, is State) {
	files, err := v.source.Read()
	v.mu.Lock()
	defer v.mu.Unlock()
	was = v.state
	switch {
	case err != nil:
		v.fail(err)
		return was, v.state
	case !files.equal(v.seen):
		v.seen = files
		return was, v.state
	case !files.equal(v.last):
		v.last, v.state.Files = files, files.Names()
		v.invalid = v.use(files)
	}
	if v.state.Error = ""; v.invalid != nil {
		v.state.Error = v.invalid.Error()
	}
	return was, v.state
}

// use makes what files say the value.
func (v *Value[T]) use(files Files) error {
	next, err := v.source.Parse(files)
	if err != nil {
		v.state.Failures++
		return err
	}
	v.live.Store(&next)
	v.state.Loads++
	v.state.Loaded = v.now()
	return nil
}

// fail notes that the files cannot be read.
func (v *Value[T]) fail(err error) {
	if text := err.Error(); text != v.state.Error {
		v.state.Failures++
		v.state.Error = text
	}
}
