package server_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
)

// A buffer is written and read by several goroutines.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A hostile client is slow, huge, many and malformed, and puts a key wherever it can. Other clients are
// served meanwhile, each of its connections ends, and the key is in no line of the log and no label.
func TestAHostileClient(t *testing.T) {
	const secret = "sk-secret"
	log := &buffer{}
	serve(t, server.Options{Logger: server.Logger(log, slog.LevelDebug), Register: register, Guard: guard(t, roles), DrainTime: time.Second}, func(r *running) {
		const authorized = "Host: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer call-0123456789ab\r\n"
		var open []net.Conn
		for _, text := range []string{
			"GET /" + secret + " HTTP/1.1\r\nHost: " + secret + "\r\n\r\n",
			secret + " / HTTP/1.1\r\nHost: localhost\r\n\r\n",
			"GET /" + secret + " HTTP/9.9\r\n\r\n",
			secret + "\r\n\r\n",
			"\x16\x03\x01" + secret,
			"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + secret + "\r\nContent-Length: 5\r\n\r\n{",
			"POST /v1/acquire HTTP/1.1\r\n" + secret + ": x\r\n bad\r\n\r\n",
			"POST /v1/acquire HTTP/1.1\r\n" + authorized + "Content-Length: -1\r\n\r\n",
			"POST /v1/acquire HTTP/1.1\r\n" + authorized + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + secret,
			"POST /v1/acquire HTTP/1.1\r\n" + authorized + "Transfer-Encoding: chunked\r\n\r\nffffffff\r\n" + secret,
			"POST /v1/acquire HTTP/1.1\r\n" + authorized + "Content-Length: 100\r\n\r\n{\"entity_id\":\"" + secret,
			"POST /v1/acquire HTTP/1.1\r\n" + authorized + "Content-Length: 24\r\n\r\n{\"entity_id\":\"" + secret + "\"}",
			"POST /v1/check?key=" + secret + " HTTP/1.1\r\n" + authorized + "Content-Length: 99999999999\r\n\r\n",
		} {
			open = append(open, r.say(text))
		}
		r.say("GET /" + secret + " HTTP/9.9\r\n\r\n") // never reads what it is told: the drain would not end
		for range 200 {                               // half a header each
			open = append(open, r.say("GET /"+secret+" HTTP/1.1\r\nX-"+secret+": "))
		}
		conn := r.proxy(insecure.NewCredentials())
		defer conn.Close()
		for _, call := range []func(){
			func() {
				_ = conn.Invoke(r.Context(), "/"+secret+"/"+secret, &rls.RateLimitRequest{}, &rls.RateLimitResponse{})
			},
			func() {
				ctx := metadata.AppendToOutgoingContext(r.Context(), "authorization", "Bearer "+secret, secret, secret)
				_, _ = rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: secret})
			},
			func() {
				ctx := metadata.AppendToOutgoingContext(r.Context(), "authorization", "Bearer call-0123456789ab")
				_, _ = rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: secret, Descriptors: []*common.RateLimitDescriptor{{
					Entries: []*common.RateLimitDescriptor_Entry{{Key: secret, Value: strings.Repeat(secret, 100<<10)}},
				}}})
			},
			func() { // never sends its message
				ctx := metadata.AppendToOutgoingContext(r.Context(), "authorization", "Bearer call-0123456789ab")
				_, _ = conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")
			},
		} {
			call()
		}
		raw, err := r.grpc.Dial(r.Context(), "", "")
		if err != nil {
			r.Fatal(err)
		}
		go func() { _, _ = io.WriteString(raw, "GET /"+secret+" HTTP/1.1\r\n\r\n"+strings.Repeat(secret, 1000)) }()
		synctest.Wait()
		for range 3 {
			if got := r.ask(r.client, http.MethodPost, "http://localhost/v1/acquire", "call", aCall); got != http.StatusOK {
				r.Errorf("another client: %d", got)
			}
		}
		for i, c := range open {
			began := time.Now()
			if err := c.SetReadDeadline(began.Add(3 * time.Minute)); err != nil {
				continue // it has ended
			}
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				r.Errorf("connection %d is open after 3 minutes", i)
			}
		}
		_ = raw.Close()
		time.Sleep(time.Minute)
		_, metrics := r.get(r.newClient(r.admin), "/metrics")
		if text := log.String() + metrics; strings.Contains(text, secret) || !strings.Contains(metrics, `path="other"`) {
			r.Errorf("the log and the metrics:\n%s", text)
		}
	})
}
