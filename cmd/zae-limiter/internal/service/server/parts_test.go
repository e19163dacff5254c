package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/store"
)

// A file of tokens that is none is refused, and the error does not repeat it.
func TestParseTokens(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                     "there is no token",
		"# nothing\n":                          "there is no token",
		"0123456789abcdef\nsecret\n":           "line 2",
		"0123456789 secret":                    "line 1",
		"\n\n0123456789abcdefsecret\xc3\xa9\n": "line 3",
	} {
		_, err := server.ParseTokens(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// An address that others reach needs tokens.
func TestCheckAddr(t *testing.T) {
	t.Parallel()
	for addr, alone := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:0": true, "[::1]:8080": true, "0.0.0.0:8080": false, ":8080": false, "[::]:8080": false, "limits.internal:80": false,
	} {
		if err := server.CheckAddr(addr, false); (err == nil) != alone {
			t.Errorf("%s without tokens: %v", addr, err)
		}
		if err := server.CheckAddr(addr, true); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for _, addr := range []string{"", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000"} {
		if server.CheckAddr(addr, true) == nil {
			t.Errorf("%q is taken", addr)
		}
	}
}

// No line of the log has the name of an entity, whatever libraries log.
func TestTheLogNamesNoEntity(t *testing.T) {
	t.Parallel()
	const entity = "sk-secret"
	var text bytes.Buffer
	log := server.Logger(&text, slog.LevelDebug)
	for _, err := range []error{
		&limiter.NotConfiguredError{Entity: entity, Resource: "gpt-4"},
		fmt.Errorf("acquire gpt-4 for %s: %w", entity, &limiter.DisabledError{Entity: entity}),
		fmt.Errorf("%w: acquire gpt-4 for %s: %w", limiter.ErrUnavailable, entity, errors.New("no route to host")),
		errors.Join(fmt.Errorf("a part of %s: %w", entity, limiter.ErrThrottled)),
	} {
		log.Error("call failed", "entity", entity, "op", "commit lease of "+entity, "error", err)
	}
	log.Warn("saturated", "warning", store.SaturatedWarning{Entity: entity, Resource: "gpt-4"}, "resource", "gpt-4")
	limits := limitertest.New(t, limiter.PerMinute("rpm", 7))
	l := limits.NewLimiter(limiter.Options{Logger: log})
	limits.Fail(limiter.ErrUnavailable)
	if _, err := l.Acquire(t.Context(), limiter.Request{Entity: entity, Resource: "gpt-4", Consume: map[string]int64{"rpm": 1}, OnUnavailable: limiter.Allow}); err != nil {
		t.Fatal(err)
	}
	if s := text.String(); strings.Contains(s, entity) || !strings.Contains(s, "unavailable: no route to host") || !strings.Contains(s, "admitted without the store") {
		t.Errorf("%s", s)
	}
}
