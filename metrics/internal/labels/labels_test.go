package labels_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/metrics/internal/labels"
)

// Resources with limits of their own find room where others have taken all that they may.
func TestConfiguredResourcesFindRoom(t *testing.T) {
	t.Parallel()
	n, err := labels.New(labels.Options{MaxResources: 4, Resources: []string{"named"}})
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		name       string
		configured bool
		want       string
	}{
		{"named", false, "named"},
		{"a", false, "a"},
		{"b", false, "b"},
		{"c", false, labels.Other}, // half of the room is taken
		{"c", true, "c"},
		{"d", true, "d"},
		{"e", true, labels.Other},
		{"a", true, "a"},
		{"a", false, "a"},
		{"f", false, labels.Other},
	} {
		if got := n.Claim(step.name, step.configured).Label; got != step.want {
			t.Errorf("step %d: %s is %s, want %s", i, step.name, got, step.want)
		}
	}
	if got := n.Known("zzz").Label; got != labels.Other {
		t.Errorf("unknown: %s", got)
	}
}

// Claims from many goroutines give no more labels than there is room for.
func TestClaimsAreBounded(t *testing.T) {
	t.Parallel()
	n, err := labels.New(labels.Options{MaxResources: 10})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				r := n.Claim(fmt.Sprint("r-", i), (i+g)%2 == 0)
				limit := r.Limit(fmt.Sprint("l-", i))
				mu.Lock()
				seen[r.Label], seen[limit] = true, true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	resources := 0
	for name := range seen {
		if name[0] == 'r' {
			resources++
		}
	}
	if resources != 10 || !seen[labels.Other] {
		t.Errorf("%d resources have labels", resources)
	}
}

// The noted levels are those of the system and of resources with labels, as read last.
func TestLevelsAreThoseReadLast(t *testing.T) {
	t.Parallel()
	n, err := labels.New(labels.Options{MaxResources: 1})
	if err != nil {
		t.Fatal(err)
	}
	note := func(k limiter.ConfigKey, limits ...limiter.Limit) {
		n.Note(&limiter.OperationResult{Keys: []limiter.ConfigKey{k}, Configs: []*limiter.Config{{Limits: limits}}})
	}
	note(limiter.ConfigKey{}, limiter.PerHour("rph", 1))
	note(limiter.ConfigKey{Entity: "key", Resource: "a"}, limiter.PerHour("rph", 2))
	note(limiter.ConfigKey{Resource: "a"}, limiter.PerHour("rph", 3))
	note(limiter.ConfigKey{Resource: "b"}, limiter.PerHour("rph", 4))
	note(limiter.ConfigKey{Resource: "a"}, limiter.PerHour("rph", 5))
	n.Note(&limiter.OperationResult{Keys: []limiter.ConfigKey{{}}, Configs: []*limiter.Config{nil}})
	got := map[string]int{}
	for _, l := range n.Levels() {
		for _, limit := range l.Limits {
			got[l.Name+" "+l.Resource] = int(limit.Capacity)
		}
	}
	if len(got) != 1 || got["resource a"] != 5 {
		t.Errorf("levels %v", got)
	}
}

// Invalid options are refused.
func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []labels.Options{{MaxResources: -1}, {Resources: []string{"a b"}}} {
		if _, err := labels.New(o); !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
