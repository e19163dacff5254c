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

// How long a connection may take for what, and how long requests have to end when Serve does.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = time.Minute
	writeTimeout  = 3 * time.Minute // from the end of the header, so longer than readTimeout
	idleTimeout   = 5 * time.Minute // longer than clients keep an idle connection, so that they close it
	shutdownGrace = 5 * time.Second
)

// Serve accepts connections on l until ctx is done. It then closes l, gives the requests that are
// under way five seconds to end, and returns nil, or an error if some did not and were cut off.
// Serve returns early with the error of l, if that fails. It closes l in any case.
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
	_ = l.Close() // already closed, at worst
	<-stopped     // because of that: no connection is accepted any more
	fresh.close()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}

// unusedConns are the connections that have brought no request. The server would wait for one for seconds
// before it shuts down, and clients dial more often than they need to.
type unusedConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// track is called by the server when the state of a connection changes.
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
