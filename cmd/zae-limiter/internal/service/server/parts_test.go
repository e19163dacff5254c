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

// An address that others reach is told from one of loopback.
func TestCheckAddr(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"127.0.0.1:8080": false, "localhost:0": false, "[::1]:8080": false, "0.0.0.0:8080": true, ":8080": true, "[::]:8080": true, "limits.internal:80": true,
	} {
		if isExposed, err := server.CheckAddr(addr); err != nil || isExposed != want {
			t.Errorf("%s: %v %v", addr, isExposed, err)
		}
	}
	for _, addr := range []string{"", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000"} {
		if _, err := server.CheckAddr(addr); err == nil {
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
