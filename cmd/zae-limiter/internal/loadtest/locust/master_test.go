package locust_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust"
)

// A stream is one direction of a connection in memory. Unlike [net.Pipe], it takes bytes
// that nobody reads yet.
type stream struct {
	mu     sync.Mutex
	change sync.Cond
	bytes  bytes.Buffer
	closed bool
}

func newStream() *stream {
	s := &stream{}
	s.change.L = &s.mu
	return s
}

func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.bytes.Len() == 0 {
		if s.closed {
			return 0, io.EOF
		}
		s.change.Wait()
	}
	return s.bytes.Read(p)
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, net.ErrClosed
	}
	defer s.change.Broadcast()
	return s.bytes.Write(p)
}

func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.change.Broadcast()
	return nil
}

// An end is one end of a connection in memory. A time limit closes it.
type end struct {
	net.Conn // nil: the methods below are all that is used

	in, out *stream
	late    *time.Timer
	// refuses is set when the connection breaks as soon as a report is written to it.
	refuses atomic.Bool
}

func connection() (worker, master *end) {
	a, b := newStream(), newStream()
	return &end{in: a, out: b}, &end{in: b, out: a}
}

func (e *end) Read(p []byte) (int, error)     { return e.in.Read(p) }
func (e *end) CloseWrite() error              { return e.out.Close() }
func (*end) SetWriteDeadline(time.Time) error { return nil }
func (e *end) Close() error                   { return errors.Join(e.in.Close(), e.out.Close()) }

func (e *end) Write(p []byte) (int, error) {
	if e.refuses.Load() && bytes.Contains(p, []byte("stats_total")) {
		return 0, errors.Join(net.ErrClosed, e.Close())
	}
	return e.out.Write(p)
}

// SetDeadline is for one goroutine.
func (e *end) SetDeadline(at time.Time) error {
	if e.late != nil {
		e.late.Stop()
	}
	if !at.IsZero() {
		e.late = time.AfterFunc(time.Until(at), func() { _ = e.Close() })
	}
	return nil
}

// A said is a message of a worker.
type said struct {
	at   time.Duration // since the master began
	kind string
	data map[string]any
	id   string
}

// A fakeMaster answers as Locust's master does: acknowledgements to workers that announce
// themselves, and heartbeats to those that it knows. The tests send the rest.
type fakeMaster struct {
	*testing.T

	began time.Time

	mu      sync.Mutex
	down    bool // connections are refused
	silent  bool // nothing is answered
	known   map[string]bool
	all     []said
	current *zmq4.Conn
	wire    net.Conn // of current
	worker  *end     // its other end
}

func newMaster(t *testing.T) *fakeMaster {
	t.Helper()
	return &fakeMaster{T: t, began: time.Now(), known: map[string]bool{}}
}

var errDown = errors.New("connection refused")

func (m *fakeMaster) dial(context.Context) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return nil, errDown
	}
	worker, master := connection()
	m.worker = worker
	go m.serve(master)
	return worker, nil
}

func (m *fakeMaster) serve(e net.Conn) {
	conn, err := zmq4.Open(e, null.Security(), zmq4.Router, nil, true, nil)
	if err != nil {
		return
	}
	m.mu.Lock()
	m.current, m.wire = conn, e
	m.mu.Unlock()
	for {
		frame, err := conn.RecvMsg()
		if err != nil {
			_ = e.Close()
			return
		}
		m.hear(conn, frame.Frames[0])
	}
}

func (m *fakeMaster) hear(conn *zmq4.Conn, frame []byte) {
	d := msgpack.NewDecoder(bytes.NewReader(frame))
	d.SetMapDecoder(mapping)
	parts, err := d.DecodeSlice()
	if err != nil || len(parts) != 3 {
		m.Errorf("message of %d bytes: %v", len(frame), err)
		return
	}
	s := said{at: time.Since(m.began), kind: parts[0].(string), id: parts[2].(string)}
	s.data, _ = parts[1].(map[string]any)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, s)
	switch {
	case m.silent:
	case s.kind == "client_ready":
		m.known[s.id] = true
		m.tell(conn, "ack", map[string]any{"index": len(m.known) - 1})
	case s.kind == "heartbeat" && m.known[s.id]:
		m.tell(conn, "heartbeat", nil)
	}
}

// mapping decodes a map whose keys may be numbers.
func mapping(d *msgpack.Decoder) (any, error) {
	n, err := d.DecodeMapLen()
	all := map[string]any{}
	for range n {
		key, err := d.DecodeInterfaceLoose()
		if err != nil {
			return nil, err
		}
		if all[fmt.Sprint(key)], err = d.DecodeInterface(); err != nil {
			return nil, err
		}
	}
	return all, err
}

func (m *fakeMaster) tell(conn *zmq4.Conn, kind string, data any) {
	frame, err := msgpack.Marshal([]any{kind, data, "w"})
	if err != nil {
		m.Error(err)
		return
	}
	_ = conn.SendMsg(zmq4.NewMsg(frame)) // the worker may be gone
}

// send sends a message to the worker, and waits until it was handled.
func (m *fakeMaster) send(kind string, data any) {
	m.mu.Lock()
	m.tell(m.current, kind, data)
	m.mu.Unlock()
	synctest.Wait()
}

// spawn asks for users. The timestamp is the present.
func (m *fakeMaster) spawn(readers, writers int, stopTimeout any) {
	m.send("spawn", map[string]any{
		"timestamp": float64(time.Now().UnixNano()) / 1e9, "user_classes_count": map[string]any{"Reader": readers, "Writer": writers},
		"host": nil, "stop_timeout": stopTimeout, "parsed_options": map[string]any{"tags": []string{"x"}},
	})
}

// becomes changes what the master is, and ends its connection.
func (m *fakeMaster) becomes(change func()) {
	m.mu.Lock()
	change()
	wire := m.wire
	m.mu.Unlock()
	_ = wire.Close()
	synctest.Wait()
}

// heard returns the messages of a type, or all without one.
func (m *fakeMaster) heard(kind string) (all []said) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.all {
		if s.kind == kind || kind == "" {
			all = append(all, s)
		}
	}
	return all
}

// kinds are the types of messages after some, without heartbeats and reports.
func (m *fakeMaster) kinds(after int) (all []string) {
	for _, s := range m.heard("")[after:] {
		if s.kind != "heartbeat" && s.kind != "stats" {
			all = append(all, s.kind)
		}
	}
	return all
}

func (m *fakeMaster) last(kind string) said {
	m.Helper()
	all := m.heard(kind)
	if len(all) == 0 {
		m.Fatalf("the worker has sent no %s", kind)
	}
	return all[len(all)-1]
}

// reported adds up the requests, failures and texts of errors that were reported.
func (m *fakeMaster) reported() (requests, failures, texts int64) {
	m.Helper()
	for _, s := range m.heard("stats") {
		var sum int64
		for _, e := range s.data["stats"].([]any) {
			entry := e.(map[string]any)
			sum += number(entry["num_requests"])
			failures += number(entry["num_failures"])
		}
		if total := number(s.data["stats_total"].(map[string]any)["num_requests"]); total != sum {
			m.Errorf("entries have %d requests, their total %d", sum, total)
		}
		requests += sum
		texts += int64(len(s.data["errors"].(map[string]any)))
	}
	return requests, failures, texts
}

// number is a whole number of any size.
func number(v any) int64 {
	switch n := v.(type) {
	case int8:
		return int64(n)
	case uint8:
		return int64(n)
	case int16:
		return int64(n)
	case uint16:
		return int64(n)
	case int32:
		return int64(n)
	case uint32:
		return int64(n)
	case int64:
		return n
	case uint64:
		return int64(n)
	}
	return -1
}

// counts are the users of a message, readers and writers.
func (s said) counts() [2]int64 {
	of, _ := s.data["user_classes_count"].(map[string]any)
	return [2]int64{number(of["Reader"]), number(of["Writer"])}
}

// A service is a worker that runs in virtual time.
type service struct {
	*fakeMaster
	*locust.Worker

	load  *tasks
	leave context.CancelFunc
	ended chan error
}

// serve starts a worker of a new master, and lets it announce itself.
func serve(t *testing.T, load *tasks) *service {
	t.Helper()
	s := start(t, newMaster(t), load)
	synctest.Wait()
	return s
}

func start(t *testing.T, m *fakeMaster, load locust.Load) *service {
	t.Helper()
	return startWith(t, m, locust.Options{Load: load})
}

func startWith(t *testing.T, m *fakeMaster, o locust.Options) *service {
	t.Helper()
	o.Master, o.Name, o.Dial = "master:5557", "box", m.dial
	w, err := locust.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	s := &service{fakeMaster: m, Worker: w, leave: leave, ended: make(chan error, 1)}
	s.load, _ = o.Load.(*tasks)
	go func() { s.ended <- w.Run(ctx) }()
	return s
}

// ends interrupts the worker, and returns how long it took to end, and its error.
func (s *service) ends() (time.Duration, error) {
	began := time.Now()
	s.leave()
	err := <-s.ended
	return time.Since(began), err
}

// active is the number of users that have an operation under way.
func (s *service) active() int64 {
	synctest.Wait()
	return s.load.active.Load()
}

// await waits until the worker has sent messages of a type, in real time.
func (m *fakeMaster) await(kind string) {
	m.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(time.Minute); len(m.heard(kind)) == 0; <-poll.C {
		if time.Now().After(end) {
			m.Fatalf("the worker sends no %s", kind)
		}
	}
}

// distinct are the IDs that workers have used, in order.
func (m *fakeMaster) distinct() (ids []string) {
	for _, s := range m.heard("") {
		if !slices.Contains(ids, s.id) {
			ids = append(ids, s.id)
		}
	}
	return ids
}
