package dynamolite_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/pipes"
)

// serving is a handler that is being served in a bubble.
type serving struct {
	*pipes.Listener
	stop   context.CancelFunc
	result chan error
}

// dial connects.
func (s *serving) dial() net.Conn {
	c, err := s.Dial(context.Background(), "", "")
	if err != nil {
		panic(err) // the server has ended
	}
	return c
}

func serve(t *testing.T, o dynamolite.HandlerOptions) *serving {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &serving{pipes.New(), cancel, make(chan error, 1)}
	h := dynamolite.NewHandler(dynamolite.New(dynamolite.Options{}), o)
	go func() { s.result <- h.Serve(ctx, s) }()
	return s
}

var requestHead = "POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: DynamoDB_20120810.DescribeEndpoints\r\n" +
	"Content-Type: application/x-amz-json-1.0\r\nX-Amz-Date: 20260102T030405Z\r\nAuthorization: " + wellFormed + "\r\nContent-Length: 2\r\n\r\n"

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func wantAnswer(t *testing.T, r *bufio.Reader, status int, mention string) {
	t.Helper()
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != status || !strings.Contains(string(body), mention) {
		t.Errorf("answered %d %s, %v; want %d and %s", answer.StatusCode, body, err, status, mention)
	}
}

// A connection serves one request after the other, malformed ones included, until Serve ends.
// Serve closes it at once if it is idle or has never been used.
func TestServeKeepsConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, dynamolite.HandlerOptions{})
		used, never := s.dial(), s.dial()
		answers := bufio.NewReader(used)
		for range 3 {
			write(t, used, requestHead+"{}")
			wantAnswer(t, answers, http.StatusOK, "Endpoints")
			write(t, used, requestHead+"{]")
			wantAnswer(t, answers, http.StatusBadRequest, "SerializationException")
		}
		start := time.Now()
		s.stop()
		if err := <-s.result; err != nil || time.Since(start) > time.Second {
			t.Errorf("ended after %v: %v", time.Since(start), err)
		}
		for _, c := range []net.Conn{used, never} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("got %v, want the end of the connection", err)
			}
		}
	})
}

// A request that has begun is answered even if Serve is told to end.
func TestServeFinishesRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, dynamolite.HandlerOptions{})
		c := s.dial()
		write(t, c, requestHead+"{")
		synctest.Wait()
		s.stop()
		time.Sleep(3 * time.Second)
		write(t, c, "}")
		wantAnswer(t, bufio.NewReader(c), http.StatusOK, "Endpoints")
		if err := <-s.result; err != nil {
			t.Error(err)
		}
	})
}

// A request that does not end is cut off.
func TestServeCutsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, dynamolite.HandlerOptions{})
		c := s.dial()
		write(t, c, requestHead+"{")
		synctest.Wait()
		start := time.Now()
		s.stop()
		if err := <-s.result; !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 5*time.Second {
			t.Errorf("ended after %v: %v", time.Since(start), err)
		}
	})
}

// A slow client does not hold a connection forever.
func TestServeTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, dynamolite.HandlerOptions{})
		start := time.Now()
		for _, tt := range []struct {
			sent   string
			within time.Duration
		}{
			{"POST / HTTP/1.1\r\n", 10 * time.Second},
			{requestHead + "{", time.Minute},
		} {
			c := s.dial()
			write(t, c, tt.sent)
			_, _ = io.Copy(io.Discard, c)
			if took := time.Since(start); took > tt.within {
				t.Errorf("after %q the connection was closed after %v, want %v", tt.sent, took, tt.within)
			}
			start = time.Now()
		}
		c := s.dial()
		write(t, c, requestHead+"{}")
		time.Sleep(time.Hour) // without reading the answer
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the answer waited for an hour: %v", err)
		}
		s.stop()
		if err := <-s.result; err != nil {
			t.Error(err)
		}
	})
}

func TestServeReportsItsListener(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, dynamolite.HandlerOptions{})
		_ = s.Close()
		if err := <-s.result; !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v, want the listener's error", err)
		}
		s.stop()
	})
}
