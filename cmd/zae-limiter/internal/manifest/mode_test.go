package manifest_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/store"
)

// An export keeps the mode of every form of a limit, also "off", which is a boolean to older YAML.
func TestModesOfLimits(t *testing.T) {
	t.Parallel()
	exportKeeps(t, func(l *store.Limit) { l.Mode, l.Percent = store.Enforce, 0 },
		"{rate: 100/min, mode: \"off\"}", "{capacity: 5, mode: shadow 80%}", "{quota: 5, renews: day, mode: shadow}",
		"{capacity: 5, reset_after_seconds: 3600, mode: off 5%}")
	_, err := manifest.Parse("f", []byte("namespace: a\nsystem: {limits: {rpm: {rate: 1, mode: maybe}}}\n"))
	if err == nil || !strings.Contains(err.Error(), "system.limits.rpm.mode") {
		t.Error(err)
	}
}

// exportKeeps checks that an export has limits as they were given, and that their digests are others than without what
// plain takes from them.
func exportKeeps(t *testing.T, plain func(*store.Limit), limits ...string) {
	t.Helper()
	for _, limit := range limits {
		m, err := manifest.Parse("f", []byte("namespace: a\nsystem: {limits: {rpm: "+limit+"}}\n"))
		if err != nil {
			t.Fatal(limit, err)
		}
		is := m.Levels[store.ConfigKey{}].Limits[0]
		without := is
		if plain(&without); without == is {
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
		if manifest.DigestOf([]store.Limit{is}) == manifest.DigestOf([]store.Limit{without}) {
			t.Errorf("%s has the digest of %v", limit, without)
		}
	}
}
