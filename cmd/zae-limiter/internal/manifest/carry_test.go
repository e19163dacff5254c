package manifest_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/store"
)

// A quota may carry, survives an export, and has another digest than one that does not. No other
// limit may.
func TestQuotasThatCarry(t *testing.T) {
	t.Parallel()
	read := func(limit string) (*manifest.Manifest, error) {
		return manifest.Parse("f", []byte("namespace: a\nsystem: {limits: {rpm: {"+limit+"}}}\n"))
	}
	digests := map[string]string{}
	for limit, want := range map[string]store.Carry{
		"quota: 5, renews: day": {}, "quota: 5, renews: day, carry_debt: true": {Debt: true}, "quota: 5, renews: day, rollover: 7": {Rollover: 7},
		"quota: 5, renews: day, rollover: 7, carry_debt: true": {Rollover: 7, Debt: true}, "quota: 5, renews: month from last day, rollover: 5000": {Rollover: 5000},
	} {
		m, err := read(limit)
		if err != nil {
			t.Errorf("%s: %v", limit, err)
			continue
		}
		l := m.Levels[store.ConfigKey{}].Limits[0]
		if l.Carries != want {
			t.Errorf("%s carries %+v", limit, l.Carries)
		}
		digest := manifest.DigestOf([]store.Limit{l})
		if other := digests[digest]; other != "" {
			t.Errorf("%s has the digest of %s", limit, other)
		}
		digests[digest] = limit
		for _, format := range []func() ([]byte, error){m.YAML, m.MarshalJSON} {
			text, err := format()
			if err != nil {
				t.Fatal(err)
			}
			again, err := manifest.Parse("g", text)
			if err != nil || again.Levels[store.ConfigKey{}].Limits[0] != l {
				t.Errorf("%s is exported as %s, which is %v, %v", limit, text, again, err)
			}
		}
	}
	for limit, want := range map[string]string{
		"quota: 5, renews: session 5h, rollover: 1": "a session begins full", "quota: 5, renews: session 5h, carry_debt: true": "a session begins full",
		"rate: 5, rollover: 1": "rollover", "quota: 5, renews: day, rollover: 5001": "from 1 to 5000", "quota: 5, renews: day, rollover: 0": "rollover",
		"quota: 5, renews: day, carry_debt: maybe": "carry_debt",
	} {
		if _, err := read(limit); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", limit, err, want)
		}
	}
}
