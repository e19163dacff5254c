package exchange

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"syscall"
	"time"
)

// A link is a connection. One exchange at a time uses it.
type link struct {
	net.Conn // with TLS
	peer     Peer
	socket   syscall.RawConn // without TLS; nil: the connection is no socket, and is never idle
	probe    probe
	since    time.Time // when it became idle
	cut      func()    // closes the connection without TLS
	answer   Answer    // of the exchange under way
	sent     bool      // the request of that exchange

	// interrupt ends the reading, so that the caller can leave. It then says so in
	// interrupted.
	interrupt   func()
	interrupted chan struct{}
}

// exchange sends a request and reads the answer. It returns the connection's errors
// unwrapped: they say what failed, and [url.Error] asks them whether it was a timeout.
func (l *link) exchange(request []byte) error {
	if err := l.send(request); err != nil {
		return err
	}
	return l.answer.read(l.Conn)
}

// send sends a request with one write.
func (l *link) send(request []byte) error {
	l.answer.in = l.answer.in[:0]
	_, err := l.Write(request)
	l.sent = err == nil
	return err
}

// quiet reports whether an idle connection is still open: the server has sent nothing,
// not even the end of the connection.
func (l *link) quiet() bool { return l.socket.Read(l.probe.look) == nil && l.probe.quiet }

// open connects.
func (p *Pool) open(ctx context.Context, to Peer) (*link, error) {
	host, port, err := net.SplitHostPort(to.Host)
	if err != nil {
		if port = "443"; to.Scheme == "http" {
			port = "80"
		}
		host = (&url.URL{Host: to.Host}).Hostname() // without the brackets of an IPv6 address
	}
	raw, err := p.dial(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	l := &link{Conn: raw, peer: to, cut: func() { _ = raw.Close() }}
	l.answer.release = func() { p.keep(l) }
	l.answer.goOn = func(ctx context.Context) error { return p.goOn(ctx, l) }
	l.interrupted = make(chan struct{}, 1)
	l.interrupt = func() {
		_ = l.SetReadDeadline(time.Unix(1, 0)) // long ago
		l.interrupted <- struct{}{}
	}
	if c, ok := raw.(syscall.Conn); ok {
		if l.socket, err = c.SyscallConn(); err != nil {
			l.cut()
			return nil, err
		}
		l.probe.init()
	}
	if to.Scheme == "https" {
		config := p.tls.Clone()
		if config.ServerName == "" {
			config.ServerName = host
		}
		secure := tls.Client(raw, config)
		if err := p.shake(ctx, secure); err != nil {
			l.cut()
			return nil, err
		}
		l.Conn = secure
	}
	return l, nil
}

func (p *Pool) shake(ctx context.Context, c *tls.Conn) error {
	if p.handshake > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.handshake)
		defer cancel()
	}
	return c.HandshakeContext(ctx)
}
