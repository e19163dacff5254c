// Package hot keeps what is read from files up to date, or what is sent: rules and certificates,
// for instance, while they are used.
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

// A Value is what files say, or what somebody sends. A change replaces it, unless it is not valid.
//
// A file that is being written may be valid and not whole. So files count only if two readings in
// turn have found them alike. A message is whole.
type Value[T any] struct {
	source Source[T] // of files
	now    func() time.Time
	live   atomic.Pointer[T]
	ready  chan struct{} // closed with the first valid one

	mu      sync.Mutex
	seen    Files // by the last reading
	last    Files // that were parsed last
	invalid error // why what came last is not valid
	state   State
}

// A State is what became of what was read or sent.
type State struct {
	// Files are the names of the files, or of the resources, that came last.
	Files []string `json:"files"`
	// Version is that of what is in use, as its sender calls it; files have none.
	Version string `json:"version,omitempty"`
	// Loaded is when what is in use came; zero if nothing has.
	Loaded time.Time `json:"loaded_at,omitzero"`
	// Loads and Failures are how often something else has come since the start: what is valid, and
	// what is not.
	Loads    int `json:"loads"`
	Failures int `json:"failures"`
	// Error is why what is there now is not in use, or cannot be read; "" if it is in use.
	Error string `json:"error,omitempty"`
}

// Open reads files for the first time.
func Open[T any](s Source[T], now func() time.Time) (*Value[T], error) {
	files, err := s.Read()
	if err != nil {
		return nil, err
	}
	v := Await[T](now)
	v.source, v.seen, v.last = s, files, files
	first, err := s.Parse(files)
	if v.came(files.Names(), "", first, err); err != nil {
		return nil, err
	}
	return v, nil
}

// Await makes a value that is sent: see [Value.Receive]. Until then, [Value.Get] is the zero value.
func Await[T any](now func() time.Time) *Value[T] {
	v := &Value[T]{now: now, ready: make(chan struct{})}
	v.live.Store(new(T))
	return v
}

// Get is the value. A call asks once, so that it does not see two values.
func (v *Value[T]) Get() T { return *v.live.Load() }

// Ready is closed once there is a value.
func (v *Value[T]) Ready() <-chan struct{} { return v.ready }

// State is what became of what was read or sent so far.
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
		files, err := v.source.Read()
		v.change(ctx, log, name, func() { v.look(files, err) })
	}
}

// Receive makes what was sent the value, unless an error says that it is not valid. files are the
// names of its parts. It logs that, as Watch does.
func (v *Value[T]) Receive(ctx context.Context, log *slog.Logger, name string, files []string, version string, next T, err error) {
	v.change(ctx, log, name, func() { v.came(files, version, next, err) })
}

// Reach notes whether the sender can be reached: an error says why not.
func (v *Value[T]) Reach(ctx context.Context, log *slog.Logger, name string, err error) {
	v.change(ctx, log, name, func() { v.reached(err) })
}

// change changes the state, and logs that.
func (v *Value[T]) change(ctx context.Context, log *slog.Logger, name string, f func()) {
	v.mu.Lock()
	was := v.state
	f()
	is := v.state
	v.mu.Unlock()
	switch {
	case is.Error != was.Error && is.Error != "":
		log.ErrorContext(ctx, "not valid, or not there: the last good ones stay in use", "files", name, "text", is.Error)
	case is.Loads == 0 && is.Error != was.Error:
		log.InfoContext(ctx, "can be reached, and nothing has come yet", "files", name)
	case is.Loads > was.Loads || is.Error != was.Error:
		log.InfoContext(ctx, "in use", "files", name, "version", is.Version)
	}
}

// look takes a reading of the files.
func (v *Value[T]) look(files Files, err error) {
	switch {
	case err != nil:
	case !files.equal(v.seen):
		v.seen = files
		return
	case !files.equal(v.last):
		v.last = files
		next, invalid := v.source.Parse(files)
		v.came(files.Names(), "", next, invalid)
		return
	}
	v.reached(err)
}

// came makes what came the value, if it is valid.
func (v *Value[T]) came(files []string, version string, next T, err error) {
	v.state.Files, v.invalid = files, err
	if err != nil {
		v.state.Failures++
		v.state.Error = err.Error()
		return
	}
	v.live.Store(&next)
	v.state.Loads++
	v.state.Version, v.state.Loaded, v.state.Error = version, v.now(), ""
	if v.state.Loads == 1 {
		close(v.ready)
	}
}

// reached notes that what is there can be read, or why not.
func (v *Value[T]) reached(err error) {
	switch {
	case err == nil && v.invalid == nil:
		v.state.Error = ""
	case err == nil:
		v.state.Error = v.invalid.Error()
	case err.Error() != v.state.Error:
		v.state.Failures++
		v.state.Error = err.Error()
	}
}
