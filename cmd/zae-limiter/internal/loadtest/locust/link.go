package locust

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
)

const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 5 * time.Second
	sendTimeout      = 5 * time.Second
	closeTimeout     = time.Second
)

// maxFrame bounds a message of the master, in bytes. Locust's have some thousand.
const maxFrame = 16 << 20

// A link is one connection to the master.
type link struct {
	raw  net.Conn
	conn *zmq4.Conn
	// in has the messages of the master, and is closed when the connection is lost. err is
	// set before.
	in  chan []byte
	err error
	// left ends the reader when nobody takes messages any more.
	left chan struct{}
	// heard is set when the master has answered something.
	heard bool
	// since is the instant at which the connection was made.
	since time.Time
}

// connect makes a link under the identity id. The link owns the connection; a failure closes
// it.
func connect(ctx context.Context, raw net.Conn, id string, now time.Time) (*link, error) {
	l := &link{raw: raw, in: make(chan []byte), left: make(chan struct{}), since: now}
	ended := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer ended()
	err := raw.SetDeadline(now.Add(handshakeTimeout))
	if err == nil {
		err = careful(func() (err error) {
			l.conn, err = zmq4.Open(&guard{Conn: raw, skip: greetingSize}, null.Security(), zmq4.Dealer, zmq4.SocketIdentity(id), false, nil)
			return err
		})
	}
	if err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("greet the master: %w", err)
	}
	go l.read()
	return l, nil
}

// careful turns a panic of the library into an error. The library panics on some malformed
// input, and the input comes from the network.
func careful(do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("malformed data: %v", r)
		}
	}()
	return do()
}

// read delivers messages until the connection is lost or closed.
func (l *link) read() {
	defer close(l.in)
	for {
		var m zmq4.Msg
		err := careful(func() (err error) {
			m, err = l.conn.RecvMsg()
			return err
		})
		if err != nil {
			l.err = err
			return
		}
		if m.Type == zmq4.CmdMsg || len(m.Frames) != 1 {
			continue // a ping, which the library has answered
		}
		select {
		case l.in <- m.Frames[0]:
		case <-l.left:
			l.err = net.ErrClosed
			return
		}
	}
}

// send sends a message. Only one goroutine may use it at a time.
func (l *link) send(frame []byte, now time.Time) error {
	if err := l.raw.SetWriteDeadline(now.Add(sendTimeout)); err != nil {
		return err
	}
	return l.conn.SendMsg(zmq4.NewMsg(frame))
}

// close ends the link and waits for its reader. What was sent still arrives: closing a
// connection that has unread data would discard it, so the reader reads to the end first.
func (l *link) close() {
	if half, ok := l.raw.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		enough := time.NewTimer(closeTimeout)
		defer enough.Stop()
		for open := true; open; {
			select {
			case _, open = <-l.in:
			case <-enough.C:
				open = false
			}
		}
	}
	close(l.left)
	_ = l.raw.Close()
	for range l.in {
		continue // until the reader closes it
	}
}

// greetingSize is the size of the greeting with which a connection begins, in bytes.
const greetingSize = 64

// A guard reads the sizes of frames as they pass, and fails at one that is too long. The
// library would allocate as much memory as the frame says it needs.
type guard struct {
	net.Conn

	skip uint64 // bytes until the next header
	head []byte // of the header, as far as it was read
}

var errFrame = errors.New("frame of the master that is too long")

// Read reads from the connection.
func (g *guard) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		if g.skip > 0 {
			passed := min(g.skip, uint64(len(rest)))
			g.skip -= passed
			rest = rest[passed:]
			continue
		}
		g.head, rest = append(g.head, rest[0]), rest[1:]
		size, complete := frameSize(g.head)
		if size > maxFrame {
			return 0, errFrame
		}
		if complete {
			g.skip, g.head = size, g.head[:0]
		}
	}
	return n, err
}

// frameSize reads the size in a header of ZMTP: flags, and then one byte, or eight if a flag
// says so.
func frameSize(head []byte) (size uint64, complete bool) {
	const long, shortHead, longHead = 0x02, 2, 9
	switch {
	case head[0]&long == 0 && len(head) == shortHead:
		return uint64(head[1]), true
	case len(head) == longHead:
		return binary.BigEndian.Uint64(head[1:]), true
	}
	return 0, false
}
