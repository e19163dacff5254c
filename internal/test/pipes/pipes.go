// Package pipes has a listener whose connections are in memory, so that servers and clients work in
// the bubble of a test, by its clock.
package pipes

import (
	"context"
	"errors"
	"net"
	"sync"
)

// A Listener accepts the connections that Dial makes.
type Listener struct {
	queue  chan net.Conn
	closed chan struct{}
	close  func()
}

// New makes a listener.
func New() *Listener {
	l := &Listener{queue: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// Accept waits for a connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial.
func (l *Listener) Close() error {
	l.close()
	return nil
}

// Addr is an address of loopback.
func (*Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// Dial connects, whatever the network and the address. It fails once the listener is closed.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.queue <- server:
		return client, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
