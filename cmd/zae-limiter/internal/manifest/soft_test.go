package manifest_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/store"
)

// A limit of every form can be soft, survives an export, and has another digest than a hard one.
func TestSoftLimits(t *testing.T) {
	t.Parallel()
	read := func(limit, soft string) (*manifest.Manifest, store.Limit) {
		t.Helper()
		m, err := manifest.Parse("f", []byte("namespace: a\nsystem: {limits: {rpm: {"+limit+soft+"}}}\n"))
		if err != nil {
			t.Fatalf("%s: %v", limit, err)
		}
		return m, m.Levels[store.ConfigKey{}].Limits[0]
	}
	for _, limit := range []string{
		"rate: 100/min, burst: 150", "capacity: 150, refill_amount: 100", "quota: 5, renews: month from last day",
		"capacity: 5, reset_schedule: [{cron: '0 0 * * *', tz: UTC}]",
		"rate: 100/min, schedule: [{cron: '* 9-17 * * *', scale: 0.5}]",
	} {
		_, hard := read(limit, "")
		_, alsoHard := read(limit, ", soft: false")
		m, soft := read(limit, ", soft: true")
		if hard.Soft || alsoHard != hard || !soft.Soft {
			t.Errorf("%s is %v, %v and %v", limit, hard, alsoHard, soft)
		}
		for _, format := range []func() ([]byte, error){m.YAML, m.MarshalJSON} {
			text, err := format()
			if err != nil {
				t.Fatal(err)
			}
			again, err := manifest.Parse("g", text)
			if err != nil || again.Levels[store.ConfigKey{}].Limits[0] != soft {
				t.Errorf("%s is exported as %s, which is %v, %v", limit, text, again, err)
			}
		}
		if manifest.DigestOf([]store.Limit{soft}) == manifest.DigestOf([]store.Limit{hard}) {
			t.Errorf("%s has the digest of a hard limit", limit)
		}
	}
	_, err := manifest.Parse("f", []byte("namespace: a\nsystem: {limits: {rpm: {rate: 1, soft: maybe}}}\n"))
	if err == nil || !strings.Contains(err.Error(), "system.limits.rpm.soft") {
		t.Error(err)
	}
}
