package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Time limits of a connection, and of the requests that are in progress when Serve ends.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = time.Minute
	writeTimeout  = 3 * time.Minute // from the end of the header, so longer than readTimeout
	idleTimeout   = 5 * time.Minute // longer than clients keep an idle connection, so that the client closes it
	shutdownGrace = 5 * time.Second
)

// maxHeaderBytes is the largest header of a request. Signed requests of SDKs have about 1 KiB, and
// session tokens several more.
const maxHeaderBytes = 32 << 10

// Serve accepts connections on l until ctx is done. It then closes l and gives the requests in
// progress five seconds to end. It returns nil, or an error if some did not end and were cut off.
// If l fails, Serve returns early with its error. It closes l in any case.
//
// A client has 10 seconds to send a header, and a minute to send a request. It has three minutes to
// take the answer, and 5 minutes until its next request. MaxConnections limits the connections. The
// order of its end: the listener is closed first, so no connection comes after the unused ones were
// closed. Those with a request then get the grace.
func (h *Handler) Serve(ctx context.Context, l net.Listener) error {
	conns := connections{most: h.connections, logger: h.logger, now: h.now}
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         conns.track,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, &provenConn{})
		},
		ErrorLog: slog.NewLogLogger(h.logger.Handler(), slog.LevelWarn),
	}
	var failure error
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		failure = server.Serve(l)
	}()
	select {
	case <-stopped:
		return errors.Join(failure, server.Close())
	case <-ctx.Done():
	}
	_ = l.Close() // l may already be closed
	<-stopped     // l is closed, so no connection is accepted any more
	conns.closeUnused()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}

// connections are those that a server has open. They limit their number: a connection costs some
// kilobytes, and up to 128 more for a body and an answer that the budget does not count. The naive
// design refuses a connection beyond the limit. Idle ones, which clients keep for later, would then
// keep others out. The longest idle one is closed instead; its client connects again.
type connections struct {
	most   int
	logger *slog.Logger
	now    func() time.Time

	mu    sync.Mutex
	conns map[net.Conn]connection
	// serial numbers the changes of states. It orders them without a clock.
	serial uint64
	warned time.Time // when a refusal was last logged
}

// provenConn is what the requests of one connection share. A proof lasts as long as the connection.
// It never passes to another one, even of the same address.
type provenConn struct {
	proven atomic.Bool // it has brought a true signature
}

// connectionKey is the key under which the context of a request has its connection.
type connectionKey struct{}

// connectionOf returns the connection of a request, nil if [Handler.Serve] did not accept it.
func connectionOf(ctx context.Context) *provenConn {
	c, _ := ctx.Value(connectionKey{}).(*provenConn)
	return c
}

// connection is the state of one connection, and since which change it has that state.
type connection struct {
	state http.ConnState
	since uint64
}

// track is what the server calls when the state of a connection changes. The server calls it for
// one connection in order, but for several at once. A closed connection may still be reported as
// active: it was on its way. Such a report must not bring it back into the count.
//
//	track    over the limit · close idle a ····················· a is active: unknown, ignored
//	server                                  a has a request
func (cs *connections) track(c net.Conn, state http.ConnState) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(cs.conns, c)
		return
	}
	if cs.conns == nil {
		cs.conns = map[net.Conn]connection{}
	}
	if state == http.StateNew && len(cs.conns) >= cs.most && !cs.evictLocked() {
		cs.warnLocked()
		_ = c.Close() // the server finds it closed; SDKs connect again
		return
	}
	if _, known := cs.conns[c]; !known && state != http.StateNew {
		return // it was refused or evicted
	}
	cs.serial++
	cs.conns[c] = connection{state, cs.serial}
}

// evictLocked closes the connection that has been without a request for longest, if there is one. A
// new connection without a request counts as waiting. Otherwise a stranger could open all of them
// and send nothing.
func (cs *connections) evictLocked() bool {
	var oldest net.Conn
	for c, at := range cs.conns {
		waiting := at.state == http.StateNew || at.state == http.StateIdle
		if waiting && (oldest == nil || at.since < cs.conns[oldest].since) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	delete(cs.conns, oldest)
	_ = oldest.Close()
	return true
}

// warnLocked logs a refusal, at most once a minute.
func (cs *connections) warnLocked() {
	now := cs.now()
	if !cs.warned.IsZero() && now.Sub(cs.warned) < time.Minute {
		return
	}
	cs.warned = now
	cs.logger.Warn("connections are refused: all have a request in progress; use fewer connections, or raise MaxConnections", "connections", cs.most)
}

// closeUnused closes the connections that have brought no request. The server would wait seconds
// for each of them before it shuts down, and clients open more connections than they need.
func (cs *connections) closeUnused() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c, at := range cs.conns {
		if at.state == http.StateNew {
			_ = c.Close()
		}
	}
}
