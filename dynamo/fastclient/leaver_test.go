package fastclient_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/direct"
	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A halting server answers each connection's first request at once. Of the answer to the
// second one it sends some bytes, and the rest when it is told to.
type halting struct {
	answer string
	cut    int
	warm   func()        // called before a connection's first answer, if not nil
	slow   time.Duration // before the answers after the second one
	sent   chan struct{} // receives when the first bytes are sent, for each connection
	rest   chan bool     // whether the rest comes, or the connection ends, for each connection

	requests, connections atomic.Int64
	served                sync.WaitGroup
	close                 func()
}

const result = `{"Attributes":` + image + `}`

// newHalting starts a server, with TLS or without.
func newHalting(t *testing.T, secure bool, answer string) (*halting, aws.Config) {
	t.Helper()
	h := &halting{answer: answer, sent: make(chan struct{}, 2), rest: make(chan bool, 2)}
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := clientConfig("http://" + l.Addr().String())
	if secure {
		like := httptest.NewTLSServer(nil) // for its certificate
		t.Cleanup(like.Close)
		trusts, _ := like.Client().Transport.(*http.Transport)
		cfg = clientConfig("https://" + l.Addr().String())
		cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.TLSClientConfig = trusts.TLSClientConfig.Clone() })
		l = tls.NewListener(l, &tls.Config{Certificates: like.TLS.Certificates, MinVersion: tls.VersionTLS12})
	}
	over := make(chan struct{})
	h.served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.connections.Add(1)
			h.served.Go(func() { h.serve(c) })
			h.served.Go(func() {
				<-over
				_ = c.Close()
			})
		}
	})
	h.close = func() {
		_ = l.Close()
		close(over)
		close(h.rest)
		h.served.Wait()
	}
	return h, cfg
}

func (h *halting) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for n := 1; ; n++ {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		h.requests.Add(1)
		if n != 2 {
			if n > 1 {
				time.Sleep(h.slow)
			} else if h.warm != nil {
				h.warm()
			}
			_, _ = io.WriteString(c, response(http.StatusOK, "", result))
			continue
		}
		_, _ = io.WriteString(c, h.answer[:h.cut/2])
		time.Sleep(time.Millisecond) // so that the two halves are probably read one after the other
		_, _ = io.WriteString(c, h.answer[h.cut/2:h.cut])
		h.sent <- struct{}{}
		if !<-h.rest {
			return
		}
		_, _ = io.WriteString(c, h.answer[h.cut:])
	}
}

// A leaver makes bucket writes on its own goroutine, and may leave them.
type leaver struct {
	*testing.T
	crew    *calls.Crew
	updater direct.Updater
	size    int // of a write's body; 0 is small
}

func newLeaver(t *testing.T, cfg aws.Config) *leaver {
	t.Helper()
	crew := calls.NewCrew(time.Minute, false)
	t.Cleanup(func() { crew.Close(time.Minute, nil) })
	return &leaver{T: t, crew: crew, updater: direct.UpdaterOf(fastclient.New(cfg), table)}
}

// write makes a write, and returns what it met.
func (l *leaver) write(ctx context.Context) (schema.Item, error) {
	u := &update{in: bucketWrite(), size: l.size}
	answer, err := l.updater.Update(ctx, u, conn.BucketWrite)
	if answer.Output != nil {
		return answer.Output.Attributes, err
	}
	return u.met, err
}

// warm makes a first connection.
func (l *leaver) warm() {
	l.Helper()
	if _, err := l.write(l.Context()); err != nil {
		l.Fatal(err)
	}
}

// A faultyConn is a connection on which a test decides when an interruption comes, and whether a
// request can be written.
type faultyConn struct {
	*net.TCPConn
	interrupted, goes chan struct{} // an interruption comes, and may go on
	breaks            atomic.Bool   // writing fails, once an interruption has come
	dawdles           atomic.Bool   // reading takes longer than ending a context
}

func (c *faultyConn) Read(p []byte) (int, error) {
	if c.dawdles.Load() {
		time.Sleep(5 * time.Millisecond)
	}
	return c.TCPConn.Read(p)
}

func (c *faultyConn) SetReadDeadline(at time.Time) error {
	if at.Before(time.Unix(2, 0)) {
		c.interrupted <- struct{}{}
		<-c.goes
	}
	return c.TCPConn.SetReadDeadline(at)
}

func (c *faultyConn) Write(p []byte) (int, error) {
	if c.breaks.Load() {
		<-c.interrupted
		return 0, errors.New("the pipe is broken")
	}
	return c.TCPConn.Write(p)
}

// newFaulty returns a leaver whose only connection is faulty, and the connection.
func newFaulty(t *testing.T, cfg aws.Config) (*leaver, *faultyConn) {
	t.Helper()
	c := &faultyConn{interrupted: make(chan struct{}, 1), goes: make(chan struct{})}
	cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			c.TCPConn, _ = raw.(*net.TCPConn)
			return c, nil
		}
	})
	l := newLeaver(t, cfg)
	l.warm()
	return l, c
}
