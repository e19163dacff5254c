//go:build conformance

package page_test

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/store"
)

// In Chromium, the pages break no policy, ask nobody else and fit a phone, and axe finds nothing. An edit goes
// through by keyboard, with scripts and without, and balances follow.
func TestPagesInABrowser(t *testing.T) {
	o := newOffice(t, "", limiter.PerMinute("rpm", 10))
	for _, e := range []store.Entity{{ID: "team"}, {ID: "key-1", Name: "<b>one</b>", Parent: "team", Cascade: true}} {
		if _, err := o.limits.Store.CreateEntity(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.take("key-1", "rpm", 9); err != nil {
		t.Fatal(err)
	}
	if err := o.take("key-1", "rpm", 9); !errors.Is(err, limiter.ErrExceeded) {
		t.Fatal(err)
	}
	server := httptest.NewServer(o.pages)
	defer server.Close()
	in, err := json.Marshal(map[string]string{"url": server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var wrong []string
	if err := json.Unmarshal(peers.RunBrowser(t, "testdata/browse.mjs", in), &wrong); err != nil {
		t.Fatal(err)
	}
	for _, text := range wrong {
		t.Error(text)
	}
	c, err := o.limits.Store.Limits(t.Context(), store.ConfigKey{Entity: "key-1", Resource: "gpt-4"})
	if err != nil || len(c.Limits) != 1 || c.Limits[0].Capacity != 78 {
		t.Errorf("%+v, %v", c, err)
	}
}
