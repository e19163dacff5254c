package manifest_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/store"
)

// A schedule survives an export, whatever form its limit has in the file. A level with it is
// not the level without, also by its digest.
func TestSchedules(t *testing.T) {
	t.Parallel()
	read := func(limit string) (*manifest.Manifest, store.Limit) {
		t.Helper()
		m, err := manifest.Parse("f", []byte("namespace: a\nsystem: {limits: {rpm: "+limit+"}}\n"))
		if err != nil {
			t.Fatalf("%s: %v", limit, err)
		}
		return m, m.Levels[store.ConfigKey{}].Limits[0]
	}
	const plain = "{rate: 100/min, burst: 150}"
	_, without := read(plain)
	for limit, want := range map[string]string{
		"{rate: 100/min, burst: 150, schedule: [{cron: '* 9-17 * * mon-fri', tz: Europe/Berlin, scale: 0.5}]}":                                                                 "* 9-17 * * 1-5 x0.5",
		"{capacity: 150, refill_amount: 100, schedule: [{cron: '* 0-5 * * *', capacity: 5, refill_amount: 6, refill_period_seconds: 7}, {cron: '* * * * 7', scale: 12.3456}]}": "* 0-5 * * * capacity=5 amount=6 seconds=7; * * * * 7 x12.346",
		"{rate: 100/min, burst: 150, schedule: [{until: '2026-12-31T18:00:00+01:00', scale: 2}, {cron: '* 0-5 * * *', scale: 3}]}":                                             "until 2026-12-31T17:00:00Z x2; * 0-5 * * * x3",
		"{capacity: 150, refill_amount: 100, schedule: [{cron: '* * * * *', scale: 0.0001}]}":                                                                                  "* * * * * x0.001",
	} {
		m, l := read(limit)
		if l.Varies == nil || l.Varies.String() != want {
			t.Errorf("%s is %v, want %s", limit, l, want)
			continue
		}
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
		plainly := l
		if plainly.Varies = nil; plainly != without {
			t.Errorf("%s is %v without its schedule", limit, plainly)
		}
		if manifest.DigestOf([]store.Limit{l}) == manifest.DigestOf([]store.Limit{without}) {
			t.Errorf("%s has the digest of a limit without a schedule", limit)
		}
	}
	for _, quota := range []string{
		"{quota: 9, renews: day, zone: Europe/Berlin, schedule: [{cron: '* * * * 6,7', tz: Europe/Berlin, scale: 0.5}]}",
		"{capacity: 9, reset_schedule: [{cron: '0 0 * * *', tz: Europe/Berlin}], schedule: [{cron: '* * * * 6,7', tz: Europe/Berlin, scale: 0.5}]}",
		"{capacity: 9, reset_after_seconds: 3600, schedule: [{cron: '* * * * 6,7', tz: Europe/Berlin, scale: 0.5}]}",
	} {
		m, l := read(quota)
		text, err := m.YAML()
		if err != nil || l.Varies == nil || l.Renews == nil {
			t.Fatal(l, err)
		}
		if again, err := manifest.Parse("g", text); err != nil || again.Levels[store.ConfigKey{}].Limits[0] != l {
			t.Errorf("%s is exported as %s, which is %v, %v", quota, text, again, err)
		}
	}
	_, err := manifest.Parse("f", []byte("namespace: a\nsystem: {limits: {rpm: {rate: 1, schedule: [{cron: '* 9 * * *', tz: UTC, scale: 2}, {cron: '* 25 * * *', tz: Asia/Tokyo, scale: 2}]}}}\n"))
	if err == nil || !strings.Contains(err.Error(), "the entries have the time zones UTC and Asia/Tokyo") {
		t.Error(err)
	}
	_, err = manifest.Parse("f", []byte("namespace: a\nsystem: {limits: {rpm: {rate: 1, schedule: [{cron: '* 25 * * *', scale: 2}]}}}\n"))
	if err == nil || !strings.Contains(err.Error(), "schedule") || !strings.Contains(err.Error(), "hour") {
		t.Error(err)
	}
	for wrong, want := range map[string]string{
		"{until: friday, scale: 2}":     `give an instant, "2026-12-31T18:00:00Z" for instance, not "friday"`,
		"{until: 2026-12-31, scale: 2}": "until", "{until: '2026-12-31T18:00:00Z', cron: '* 9 * * *', scale: 2}": "no fields of cron", "{scale: 2}": "cron is missing",
	} {
		_, err := manifest.Parse("f", []byte("namespace: a\nsystem: {limits: {rpm: {rate: 1, schedule: ["+wrong+"]}}}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", wrong, err, want)
		}
	}
}
