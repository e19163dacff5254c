package fastclient_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A request that may have to wait for room in the socket is not sent on the caller's goroutine.
func TestACallerSendsNothingLong(t *testing.T) {
	t.Parallel()
	server, cfg := newHalting(t, false, response(http.StatusOK, "", result))
	defer server.close()
	l := newLeaver(t, cfg)
	l.warm()
	l.size = 4 << 10
	ctx := l.crew.NewLeavable(t.Context())
	if _, err := l.write(&ctx); !errors.Is(err, calls.ErrApart) || server.requests.Load() != 1 {
		t.Errorf("%v after %d requests", err, server.requests.Load())
	}
}

// An interruption that comes with the answer is waited for. It would end the next call over the
// connection.
func TestALateInterruptionHitsNoOtherCall(t *testing.T) {
	t.Parallel()
	server, cfg := newHalting(t, false, response(http.StatusOK, "", result))
	defer server.close()
	l, c := newFaulty(t, cfg)
	server.slow = 50 * time.Millisecond
	caller, leave := context.WithCancel(t.Context())
	go func() {
		<-server.sent
		leave()
		<-c.interrupted
		server.rest <- true
		time.Sleep(20 * time.Millisecond) // a call that did not wait is in the next one by now
		close(c.goes)
	}()
	ctx := l.crew.NewLeavable(caller)
	if _, err := l.write(&ctx); err != nil {
		t.Errorf("the answer came: %v", err)
	}
	if _, err := l.write(t.Context()); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// A request that could not be written is not waited for, although its caller has left.
func TestAnUnsentWriteIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	server, cfg := newHalting(t, false, response(http.StatusOK, "", result))
	defer server.close()
	l, c := newFaulty(t, cfg)
	l.crew = calls.NewCrew(2*time.Second, false)
	close(c.goes)
	c.breaks.Store(true)
	caller, leave := context.WithCancel(t.Context())
	leave()
	ctx := l.crew.NewLeavable(caller)
	if _, err := l.write(&ctx); !errors.Is(err, calls.ErrGoesOn) {
		t.Fatal(err)
	}
	if _, err := l.write(ctx.Apart()); err == nil || !strings.Contains(err.Error(), "the pipe is broken") {
		t.Error(err)
	}
}

// A request that was to be sent only, and could not be, goes on to its error. The SDK's part of
// that is not the caller's.
func TestAnUnsentWriteGoesOnToItsError(t *testing.T) {
	t.Parallel()
	server, cfg := newHalting(t, false, response(http.StatusOK, "", result))
	defer server.close()
	l, c := newFaulty(t, cfg)
	c.interrupted <- struct{}{}
	c.breaks.Store(true)
	ctx := l.crew.NewLeavable(t.Context())
	for _, under := range []func(*calls.Leavable) context.Context{(*calls.Leavable).Begin, (*calls.Leavable).GoOn} {
		if _, err := l.write(under(&ctx)); !errors.Is(err, calls.ErrGoesOn) {
			t.Fatal(err)
		}
	}
	if _, err := l.write(ctx.Apart()); err == nil || !strings.Contains(err.Error(), "the pipe is broken") || server.requests.Load() != 1 {
		t.Errorf("%v after %d requests", err, server.requests.Load())
	}
}

// An answer that came in time counts, although nobody read it in time: another answer, which did
// not come, was waited for.
func TestAnAnswerThatIsThereCounts(t *testing.T) {
	t.Parallel()
	server, cfg := newHalting(t, false, response(http.StatusOK, "", result))
	defer server.close()
	server.cut = len(server.answer)
	server.rest <- true
	l, c := newFaulty(t, cfg)
	l.crew = calls.NewCrew(100*time.Millisecond, false)
	ctx := l.crew.NewLeavable(t.Context())
	if _, err := l.write(ctx.Begin()); !errors.Is(err, calls.ErrGoesOn) {
		t.Fatal(err)
	}
	<-ctx.Done()
	c.dawdles.Store(true)
	if met, err := l.write(ctx.Apart()); err != nil || schema.KeyOf(met).PK != "a" {
		t.Errorf("met %v, %v", met, err)
	}
}

// A request that goes on is not made again, although its time is up.
func TestTheTimeIsUpAfterTheCallerHasLeft(t *testing.T) {
	t.Parallel()
	server, cfg := newHalting(t, false, response(http.StatusOK, "", result))
	defer server.close()
	l := newLeaver(t, cfg)
	l.warm()
	l.crew = calls.NewCrew(100*time.Millisecond, false)
	caller, leave := context.WithCancel(t.Context())
	go func() {
		<-server.sent
		leave()
	}()
	ctx := l.crew.NewLeavable(caller)
	if _, err := l.write(&ctx); !errors.Is(err, calls.ErrGoesOn) {
		t.Fatal(err)
	}
	<-ctx.Done()
	if _, err := l.write(ctx.Apart()); err == nil || !strings.Contains(err.Error(), "its outcome is not known") || server.requests.Load() != 2 {
		t.Errorf("%v after %d requests", err, server.requests.Load())
	}
}

// A caller waits for no credentials: only another goroutine asks for those that have expired.
func TestACallerWaitsForNoCredentials(t *testing.T) {
	t.Parallel()
	server, cfg := newHalting(t, false, response(http.StatusOK, "", result))
	defer server.close()
	var asked atomic.Int32
	comes := make(chan struct{})
	cfg.Credentials = aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		if asked.Add(1) > 1 {
			<-comes
		}
		return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local", CanExpire: true, Expires: time.Now()}, nil
	}))
	l := newLeaver(t, cfg)
	l.warm()
	got := make(chan error, 1)
	ctx := l.crew.NewLeavable(t.Context())
	go func() {
		_, err := l.write(&ctx)
		got <- err
	}()
	select {
	case err := <-got:
		if !errors.Is(err, calls.ErrApart) || server.requests.Load() != 1 {
			t.Errorf("%v after %d requests", err, server.requests.Load())
		}
	case <-time.After(10 * time.Second):
		t.Error("the caller waits")
	}
	close(comes)
}
