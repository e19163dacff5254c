package locust

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// anyVersion stands for the worker's version in client_ready. Locust compares versions of
// workers with its own, except this one.
const anyVersion = -1

// The states of a worker that a master knows.
const (
	stateReady    = "ready"
	stateSpawning = "spawning"
	stateRunning  = "running"
)

// A message is one of the master's.
type message struct {
	kind string
	data msgpack.RawMessage
}

// encode encodes a message to the master.
func encode(kind string, data any, id string) ([]byte, error) {
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.UseCompactInts(true)
	const parts = 3
	err := errors.Join(e.EncodeArrayLen(parts), e.EncodeString(kind), e.Encode(data), e.EncodeString(id))
	if err != nil {
		return nil, fmt.Errorf("encode message %s: %w", kind, err)
	}
	return b.Bytes(), nil
}

// parse decodes a message of the master.
func parse(frame []byte) (message, error) {
	d := msgpack.NewDecoder(bytes.NewReader(frame))
	const parts = 3
	if n, err := d.DecodeArrayLen(); err != nil || n != parts {
		return message{}, fmt.Errorf("%w: it is not an array of type, data and worker", errMessage)
	}
	kind, err := d.DecodeString()
	if err != nil {
		return message{}, fmt.Errorf("%w: type: %w", errMessage, err)
	}
	data, err := d.DecodeRaw()
	if err != nil {
		return message{}, fmt.Errorf("%w: data of %s: %w", errMessage, kind, err)
	}
	if err := d.Skip(); err != nil {
		return message{}, fmt.Errorf("%w: worker of %s: %w", errMessage, kind, err)
	}
	if _, err := d.PeekCode(); !errors.Is(err, io.EOF) {
		return message{}, fmt.Errorf("%w: bytes follow %s", errMessage, kind)
	}
	return message{kind, data}, nil
}

// errMessage says that a message of the master is not understood.
var errMessage = errors.New("message of the master that is not one of Locust's")

// A heartbeat tells the master how the worker is.
type heartbeat struct {
	State  string  `msgpack:"state"`
	CPU    float64 `msgpack:"current_cpu_usage"`    // percent
	Memory uint64  `msgpack:"current_memory_usage"` // bytes
}

// userCounts are the users that are to run.
type userCounts struct {
	ClassesCount map[string]int64 `msgpack:"user_classes_count"`
	UserCount    int64            `msgpack:"user_count"`
}

// An exception is an error that belongs to no request.
type exception struct {
	Message   string `msgpack:"msg"`
	Traceback string `msgpack:"traceback"` // Locust counts exceptions by it
}

// An order is a spawn message.
type order struct {
	Timestamp float64 `msgpack:"timestamp"` // by the clock of the master
	// Users are the numbers that there are to be of each class, not changes.
	Users map[string]int64 `msgpack:"user_classes_count"`
	// StopTimeout is how many seconds an operation under way may go on when its user is to
	// stop; nil is 0.
	StopTimeout *float64 `msgpack:"stop_timeout"`
}

// maxUsers bounds the users of one class on one worker. Each is a goroutine.
const maxUsers = 1_000_000

// maxGrace bounds the stop timeout.
const maxGrace = 24 * time.Hour

func (m *message) order() (o order, err error) {
	if err := msgpack.Unmarshal(m.data, &o); err != nil {
		return o, fmt.Errorf("%w: %s: %w", errMessage, m.kind, err)
	}
	if o.Users == nil || math.IsNaN(o.Timestamp) {
		return o, fmt.Errorf("%w: %s has no users or no timestamp", errMessage, m.kind)
	}
	for class, n := range o.Users {
		if n < 0 || n > maxUsers {
			return o, fmt.Errorf("%w: %s of %d users of class %s: give 0 to %d", errMessage, m.kind, n, class, maxUsers)
		}
	}
	if t := o.StopTimeout; t != nil && !(*t >= 0 && *t <= maxGrace.Seconds()) {
		return o, fmt.Errorf("%w: %s with a stop timeout of %v s: give 0 to %v", errMessage, m.kind, *t, maxGrace.Seconds())
	}
	return o, nil
}

func (o *order) grace() time.Duration {
	if o.StopTimeout == nil {
		return 0
	}
	return time.Duration(*o.StopTimeout * float64(time.Second))
}

// index is the worker's number in an ack; false if the master gives none.
func (m *message) index() (int64, bool) {
	var ack struct {
		Index *int64 `msgpack:"index"`
	}
	const most = 1 << 20
	if err := msgpack.Unmarshal(m.data, &ack); err != nil || ack.Index == nil || *ack.Index < 0 || *ack.Index > most {
		return 0, false
	}
	return *ack.Index, true
}
