package server

import (
	"net"
	"sync"
)

// A bounded listener has at most so many connections open. Others wait until it accepts them.
type bounded struct {
	net.Listener

	room   chan struct{}
	closed chan struct{}
	close  func() error
}

func bound(l net.Listener, most int) *bounded {
	b := &bounded{Listener: l, room: make(chan struct{}, most), closed: make(chan struct{})}
	b.close = sync.OnceValue(func() error {
		close(b.closed)
		return l.Close()
	})
	return b
}

// Accept waits for room, and then for a connection.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.room <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	conn, err := b.Listener.Accept()
	if err != nil {
		<-b.room
		return nil, err
	}
	return &place{conn, sync.OnceFunc(func() { <-b.room })}, nil
}

// Close ends Accept.
func (b *bounded) Close() error { return b.close() }

// A place is a connection that has room.
type place struct {
	net.Conn

	leave func()
}

// Close makes room.
func (p *place) Close() error {
	defer p.leave()
	return p.Conn.Close()
}
