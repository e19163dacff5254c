package dynamolite

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
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

// Serve accepts connections on l until ctx is done. It then closes l and gives the requests in
// progress five seconds to end. It returns nil, or an error if some did not end and were cut off.
// If l fails, Serve returns early with its error. It closes l in any case.
func (h *Handler) Serve(ctx context.Context, l net.Listener) error {
	var fresh unusedConns
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		ConnState:         fresh.track,
		ErrorLog:          slog.NewLogLogger(h.logger.Handler(), slog.LevelWarn),
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
	fresh.close()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}

// unusedConns are the connections that have brought no request. The server would wait seconds for
// each of them before it shuts down, and clients open more connections than they need.
type unusedConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// The server calls track when the state of a connection changes.
func (u *unusedConns) track(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state != http.StateNew {
		delete(u.conns, c)
		return
	}
	if u.conns == nil {
		u.conns = map[net.Conn]struct{}{}
	}
	u.conns[c] = struct{}{}
}

func (u *unusedConns) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.conns {
		_ = c.Close()
	}
}
