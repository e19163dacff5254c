package locust

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// The times of the protocol are Locust's, except unknownAfter.
const (
	beatInterval   = time.Second
	reportInterval = 3 * time.Second
	greetInterval  = 5 * time.Second
	dialInterval   = time.Second
	// silentAfter is how long a master may be silent before it counts as gone.
	silentAfter = time.Minute
	// unknownAfter is how long a worker waits on a new connection for the answer to a
	// heartbeat. A master that does not know the worker never answers.
	unknownAfter = 5 * time.Second
	// quitGrace is how long users get to end their operations once the master quits. It waits
	// half a second for the last reports, whatever its stop timeout is.
	quitGrace = 250 * time.Millisecond
	// defaultPatience is how long a worker looks for a master.
	defaultPatience = 5 * time.Minute
)

// Options configure a [Worker].
type Options struct {
	// Master is the address of the master, host:port. Locust's port is 5557. Required.
	Master string
	// Load is what users do. Required.
	Load Load
	// Name is the beginning of the worker's ID. Default: the name of the machine.
	Name string
	// Patience is how long the worker looks for a master that it does not know yet. Default:
	// five minutes.
	Patience time.Duration
	// MaxGrace bounds the time that users get to end their operations when the context of
	// [Worker.Run] ends. Default: no bound, so that the master's stop timeout counts.
	MaxGrace time.Duration
	// Logger gets what happens, and messages that are ignored. Default: discarded.
	Logger *slog.Logger
	// Dial connects to the master. Default: over TCP.
	Dial func(ctx context.Context) (net.Conn, error)
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
}

// A Worker carries out the load that a master of Locust asks for. Make it with [New].
type Worker struct {
	o     Options
	log   *slog.Logger
	stats *stats
	users *users
	usage usage

	// What follows belongs to the goroutine of Run.
	id    string
	index int64
	// known is set when the master has acknowledged this ID.
	known bool
	state string
	// heard is the instant of the last message of the master, or of the beginning of the
	// search for one.
	heard   time.Time
	greeted time.Time // instant of the last announcement
	// ordered is the timestamp of the last spawn message that was obeyed. Older ones that
	// come later are ignored.
	ordered float64
	grace   time.Duration // of the last spawn message
	// ended is closed when the users have stopped, after a stop message; else it is nil.
	ended <-chan struct{}
	// later are messages that came in between. They wait, because the master expects an
	// answer to its stop message first.
	later []message
}

// Validate checks the address of the master. It fails with a [*store.ValidationError].
func (o *Options) Validate() error {
	host, port, err := net.SplitHostPort(o.Master)
	n, convertErr := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || convertErr != nil || n == 0 {
		return &store.ValidationError{Field: "master", Value: o.Master, Reason: "give host:port, 127.0.0.1:5557 for instance"}
	}
	return nil
}

// New makes a worker. It starts nothing. It fails with a [*store.ValidationError].
func New(o Options) (*Worker, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Load == nil || len(o.Load.Classes()) == 0 {
		return nil, &store.ValidationError{Field: "load", Value: "none", Reason: "give a load with at least one class of users"}
	}
	if o.Name == "" {
		o.Name = "worker"
		if machine, err := os.Hostname(); err == nil {
			o.Name = machine
		}
	}
	// An identity of ZeroMQ has at most 255 bytes.
	const most = 200
	o.Name = o.Name[:min(len(o.Name), most)]
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default clock
	}
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	if o.Dial == nil {
		dialer := net.Dialer{Timeout: dialTimeout}
		o.Dial = func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", o.Master) }
	}
	s := newStats(o.Now())
	return &Worker{o: o, log: o.Logger, stats: s, users: newUsers(o.Load, s, o.Now)}, nil
}

// Totals returns the counts of requests since the last test began, by name and method. They
// include requests that have not been reported yet. It is safe for concurrent use.
func (w *Worker) Totals() []Total { return w.stats.sums() }

// UnreachableError says that there was no master for Options.Patience.
type UnreachableError struct {
	Master string
	For    time.Duration
	Err    error // of the last attempt, nil if there were connections but no answer
}

// Error says what to do.
func (e *UnreachableError) Error() string {
	why := "it does not answer"
	if e.Err != nil {
		why = e.Err.Error()
	}
	return fmt.Sprintf("reach the Locust master at %s for %v: %s; start it with locust --master, and check address and port",
		e.Master, e.For, why)
}

// Unwrap is the error of the last attempt.
func (e *UnreachableError) Unwrap() error { return e.Err }

// The ends of a link after which the worker connects again.
var (
	errUnknown   = errors.New("the master does not know this worker")
	errSilent    = errors.New("the master is silent")
	errReconnect = errors.New("the master asks for a new connection")
)

// errQuit is the end of a link after which the worker ends.
var errQuit = errors.New("the master asks to quit")

// Run works for the master until the master asks to quit, or ctx ends: both are no error.
// It fails with an [*UnreachableError] when there has been no master for Options.Patience. It
// returns after all users have stopped, and may be called once.
func (w *Worker) Run(ctx context.Context) error {
	// Users outlive ctx for a moment: the worker reports what they did.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		cancel()
		<-w.users.stop(0)
	}()
	if most := w.o.MaxGrace; most > 0 {
		defer context.AfterFunc(ctx, func() { time.AfterFunc(most, cancel) })()
	}
	w.rename()
	w.heard, w.state = w.o.Now(), stateReady
	for {
		l, err := w.connect(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		err = w.attend(ctx, running, l)
		l.close()
		unreachable := (*UnreachableError)(nil)
		switch {
		case errors.Is(err, errQuit) || ctx.Err() != nil:
			w.log.InfoContext(ctx, "worker ends", "reason", err)
			return nil
		case errors.As(err, &unreachable):
			return err
		case errors.Is(err, errUnknown) || errors.Is(err, errSilent):
			w.log.WarnContext(ctx, "worker stops its users and looks for a master again", "error", err)
			w.forget()
		default:
			w.log.WarnContext(ctx, "connection to the master ended; users go on", "error", err)
		}
	}
}

// rename gives the worker a new ID. A master may still hold the last one for a connection
// that is dead, and would ignore another of the same ID.
func (w *Worker) rename() {
	const size = 16
	id := make([]byte, size)
	_, _ = rand.Read(id) // never fails
	w.id = w.o.Name + "_" + hex.EncodeToString(id)
}

// forget ends the test of a master that is gone.
func (w *Worker) forget() {
	<-w.users.stop(0)
	w.stats.take(w.o.Now())
	w.rename()
	w.known, w.state, w.ordered, w.ended, w.later = false, stateReady, 0, nil, nil
	w.greeted, w.heard = time.Time{}, w.o.Now()
}

// connect connects to the master, and keeps trying.
func (w *Worker) connect(ctx context.Context) (*link, error) {
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-again.C:
		}
		l, err := w.dial(ctx)
		if err == nil {
			return l, nil
		}
		now := w.o.Now()
		lost := now.Sub(w.heard)
		switch {
		case w.known && lost >= silentAfter:
			w.log.WarnContext(ctx, "worker stops its users and looks for a master again", "error", err)
			w.forget()
		case !w.known && lost >= w.o.Patience:
			return nil, &UnreachableError{Master: w.o.Master, For: w.o.Patience, Err: err}
		}
		again.Reset(dialInterval)
	}
}

func (w *Worker) dial(ctx context.Context) (*link, error) {
	raw, err := w.o.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return connect(ctx, raw, w.id, w.o.Now())
}
