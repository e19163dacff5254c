package manifest_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/store"
)

// An export keeps what each form of a limit returns.
func TestReturnsOfLimits(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{
		"{rate: 100/min, returns: 50}", "{capacity: 5, returns: 100}", "{quota: 5, renews: day, returns: 1}",
		"{capacity: 5, reset_after_seconds: 3600, returns: 5, mode: shadow}",
	} {
		m, err := manifest.Parse("f", []byte("namespace: a\nsystem: {limits: {rpm: "+limit+"}}\n"))
		if err != nil {
			t.Fatal(limit, err)
		}
		is := m.Levels[store.ConfigKey{}].Limits[0]
		if is.Returns == 0 {
			t.Errorf("%s is %v", limit, is)
		}
		for _, format := range []func() ([]byte, error){m.YAML, m.MarshalJSON} {
			text, err := format()
			if err != nil {
				t.Fatal(err)
			}
			again, err := manifest.Parse("g", text)
			if err != nil || again.Levels[store.ConfigKey{}].Limits[0] != is {
				t.Errorf("%s is exported as %s, which is %v, %v", limit, text, again, err)
			}
		}
		plain := is
		plain.Returns = 0
		if manifest.DigestOf([]store.Limit{is}) == manifest.DigestOf([]store.Limit{plain}) {
			t.Errorf("%s has the digest of a limit that keeps", limit)
		}
	}
	for _, percent := range []string{"0", "101", "half", "50%"} {
		_, err := manifest.Parse("f", []byte("namespace: a\nsystem: {limits: {rpm: {rate: 1, returns: "+percent+"}}}\n"))
		if err == nil || !strings.Contains(err.Error(), "system.limits.rpm.returns") {
			t.Error(percent, err)
		}
	}
}
