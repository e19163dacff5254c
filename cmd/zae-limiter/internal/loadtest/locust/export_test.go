package locust

import (
	"net"
	"time"
)

// What the tests see of the package.
var (
	Rounded = rounded
	Encode  = encode
)

// MaxFrame and GreetingSize are sizes in bytes.
const (
	MaxFrame     = maxFrame
	GreetingSize = greetingSize
	MaxErrors    = maxErrors
	OpsOfWorker  = opsOfWorker
)

// An Order is what a spawn message says.
type Order struct {
	Timestamp float64
	Users     map[string]int64
	Grace     time.Duration
}

// Parse decodes a message. The order is nil unless it is a spawn message, and the index is
// -1 unless it is an ack.
func Parse(frame []byte) (kind string, o *Order, index int64, err error) {
	m, err := parse(frame)
	if err != nil {
		return "", nil, -1, err
	}
	index, ok := m.index()
	if m.kind != "ack" || !ok {
		index = -1
	}
	if m.kind == "spawn" {
		order, err := m.order()
		return m.kind, &Order{order.Timestamp, order.Users, order.grace()}, index, err
	}
	return m.kind, nil, index, nil
}

// NewGuard returns a guarded connection.
func NewGuard(conn net.Conn) net.Conn { return &guard{Conn: conn, skip: greetingSize} }

// FailureKey is the key of a failure.
func FailureKey(method, name, text string) string {
	f := failure{Method: method, Name: name, Error: text}
	return f.key()
}

// A Heartbeat, and an Exception.
type (
	Heartbeat = heartbeat
	Exception = exception
)

// Reports are the bytes of the report of events that happen at an instant, with so many
// users of class A. The first ones are in a report that could not be sent.
func Reports(now time.Time, users int64, id string, unsent int, events ...Event) ([]byte, error) {
	s := newStats(now)
	lost := s.take(now)
	for i := range events {
		if i == unsent {
			lost = s.take(now)
		}
		s.add(&events[i], now)
	}
	s.restore(lost)
	r := s.take(now)
	r.ClassesCount, r.UserCount = map[string]int64{"A": users}, users
	return encode("stats", r, id)
}
