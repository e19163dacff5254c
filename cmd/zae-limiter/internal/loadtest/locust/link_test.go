package locust_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust"
)

// greeting is with what a peer of ZeroMQ begins: signature, version 3.0, mechanism NULL.
func greeting() []byte {
	g := make([]byte, locust.GreetingSize)
	g[0], g[9], g[10] = 0xff, 0x7f, 3
	copy(g[12:], "NULL")
	return g
}

// ready is the command that follows the greeting.
func ready(body string) []byte {
	command := "\x05READY" + body
	return append([]byte{0x04, byte(len(command))}, command...)
}

const properties = "\x0bSocket-Type\x00\x00\x00\x06ROUTER"

// header is the header of a long frame.
func header(size uint64) []byte { return binary.BigEndian.AppendUint64([]byte{0x02}, size) }

// Peers that are no master do not end the worker, which finds the master in the end.
func TestStrangePeers(t *testing.T) {
	t.Parallel()
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, bytes := range map[string][]byte{
		"nothing":                 nil,
		"another protocol":        []byte("HTTP/1.1 400 Bad Request\r\n\r\n" + strings.Repeat("x", 100)),
		"no command":              greeting(),
		"another command":         join(greeting(), []byte("\x04\x06\x05ERROR")),
		"short command":           join(greeting(), []byte("\x04\x00")),
		"long name":               join(greeting(), []byte("\x04\x02\xffR")),
		"broken property":         join(greeting(), ready("\x0bSocket")),
		"property without value":  join(greeting(), ready("\x0bSocket-Type")),
		"property of great value": join(greeting(), ready("\x0bSocket-Type\xff\xff\xff\xffROUTER")),
		"another socket":          join(greeting(), ready("\x0bSocket-Type\x00\x00\x00\x03PUB")),
		"great frame":             join(greeting(), ready(properties), header(1<<40)),
		"greatest frame":          join(greeting(), ready(properties), header(1<<63-1)),
		"impossible frame":        join(greeting(), ready(properties), header(1<<64-1)),
		"great command":           join(greeting(), header(1<<62)),
		"half a frame":            join(greeting(), ready(properties), []byte("\x00\x09abc")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMaster(t)
				strangers := 0
				w, err := locust.New(locust.Options{Master: "master:5557", Load: &tasks{}, Dial: func(ctx context.Context) (net.Conn, error) {
					if strangers == 2 {
						return m.dial(ctx)
					}
					strangers++
					worker, stranger := connection()
					_, _ = stranger.Write(bytes)
					if name == "half a frame" { // the worker waits for the rest
						time.AfterFunc(time.Minute, func() { _ = stranger.Close() })
					}
					return worker, nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, leave := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- w.Run(ctx) }()
				pass(3 * time.Minute)
				if len(m.heard("client_ready")) == 0 {
					t.Error("the worker has not found the master")
				}
				leave()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// What a guard lets pass is what comes.
func TestTheGuard(t *testing.T) {
	t.Parallel()
	short, long := "\x00\x03abc", string(header(300))+strings.Repeat("x", 300)
	most := string(header(locust.MaxFrame)) + strings.Repeat("x", locust.MaxFrame)
	for _, c := range []struct {
		name, frames string
		passes       bool
	}{
		{"short and long", short + long + "\x04\x00" + short, true},
		{"the longest", short + most + short, true},
		{"too long", short + string(header(locust.MaxFrame+1)) + short, false},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			worker, master := connection()
			sent := string(greeting()) + c.frames
			if size < 1<<20 && len(sent) > locust.MaxFrame {
				continue // too slow with few bytes
			}
			_, _ = master.Write([]byte(sent))
			_ = master.Close()
			guard := locust.NewGuard(worker)
			var got bytes.Buffer
			_, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{guard}, make([]byte, size))
			if passes := err == nil && got.String() == sent; passes != c.passes {
				t.Errorf("%s, %d bytes at a time: %v after %d of %d bytes", c.name, size, err, got.Len(), len(sent))
			}
		}
	}
}

// Over TCP the farewell arrives, although the worker closes the connection at once.
func TestOverTCP(t *testing.T) {
	t.Parallel()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	m := newMaster(t)
	go func() {
		if conn, err := listener.Accept(); err == nil {
			m.serve(conn)
		}
	}()
	load := &tasks{think: time.Millisecond}
	w, err := locust.New(locust.Options{Master: listener.Addr().String(), Load: load})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	m.await("heartbeat")
	m.mu.Lock()
	m.tell(m.current, "spawn", map[string]any{"timestamp": 1, "user_classes_count": map[string]any{"Reader": 3}})
	m.mu.Unlock()
	m.await("spawning_complete")
	leave()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	m.await("quit")
	if requests, _, _ := m.reported(); requests != load.done.Load() || requests == 0 {
		t.Errorf("%d requests reported of %d", requests, load.done.Load())
	}
}
