package scenario_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

// oneLimit is a limit that no load comes near.
var oneLimit = []store.Limit{{Name: "rps", Capacity: 1_000_000, Amount: 1_000_000, Period: time.Second}}

func builtin(tb testing.TB, name string) *scenario.Scenario {
	tb.Helper()
	s, err := scenario.Builtin(name)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func plan(tb testing.TB, s *scenario.Scenario) *scenario.Plan {
	tb.Helper()
	p, err := s.Plan()
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestEveryFileIsAScenarioOfItsName(t *testing.T) {
	t.Parallel()
	names := scenario.Names()
	for _, name := range names {
		if s := builtin(t, name); s.Name != name || s.About == "" {
			t.Errorf("%s: name %q, about %q", name, s.Name, s.About)
		}
		plan(t, builtin(t, name))
	}
	entries, err := os.ReadDir("files")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(names, strings.TrimSuffix(e.Name(), ".yaml")) {
			t.Errorf("no name leads to %s", e.Name())
		}
	}
}

func TestAnUnknownNameIsNotFound(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "nobody", "../builtin", "a/b", "."} {
		_, err := scenario.Builtin(name)
		if !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "llm-gateway") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
