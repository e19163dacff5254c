//go:build conformance

package conformance_test

import (
	"errors"
	"maps"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// agree checks that both libraries read the same limits of a level.
func (b *both) agree(l level, want []limiter.Limit) {
	b.Helper()
	got, err := b.store.Limits(b.Context(), l.key)
	b.must(err)
	if diff := cmp.Diff(want, got.Limits); diff != "" {
		b.Errorf("Go reads of %v (-want +got):\n%s", l.key, diff)
	}
	var differs string
	b.py.do("differs", args{"getter": l.get, "where": l.where, "limits": asPython(want...)}, &differs)
	if differs != "" {
		b.Errorf("Python reads of %v: %s", l.key, differs)
	}
}

// quotaLimits are quotas and a rate, in a zone.
func (b *both) quotaLimits(n int64) []limiter.Limit {
	b.Helper()
	return []limiter.Limit{
		b.quota("day", n, "day at 06:30", "Europe/Berlin"), b.quota("month", 20*n, "month from day 15; 0 12 * * 1-5", "Europe/Berlin"),
		limiter.PerMinute("rpm", 60), b.quota("week", 5*n, "week from sunday", "Europe/Berlin"), b.quota("year", 300*n, "year", "Europe/Berlin"),
	}
}

// itemDefault is a bucket of Python's whose quotas renew by the default of the item, and whose rate opts out.
func (b *both) itemDefault() {
	b.Helper()
	limits := []limiter.Limit{b.quota("rpd", 100, "day", "UTC"), limiter.PerMinute("rpm", 6000), b.quota("tpd", 1000, "day", "UTC")}
	b.py.call("set_resource_defaults", args{"resource": "gpt-4", "limits": asPython(limits...)}, nil)
	now, midnight := noon()
	b.at(now)
	b.py.take("user", "gpt-4", args{"rpd": 10, "rpm": 1, "tpd": 100})
	before := b.item("user", "gpt-4")
	if before[schema.RSched] == nil || before[schema.LimitAttr("rpm", schema.FieldRSched)] == nil {
		b.Fatalf("Python wrote no default, or no exception: %v", before)
	}
	b.take("user", "gpt-4", args{"rpd": 20, "rpm": 1, "tpd": 200})
	b.balance("user", "gpt-4", "rpd", 70)
	b.balance("user", "gpt-4", "tpd", 700)
	b.at(midnight)
	b.take("user", "gpt-4", args{"rpd": 30, "rpm": 1})
	b.balance("user", "gpt-4", "rpd", 70)
	b.balance("user", "gpt-4", "tpd", 1000)

	// A quota becomes a rate, and another one renews by the month: both against the default.
	limits[0], limits[2] = limiter.PerMinute("rpd", 100), b.quota("tpd", 1000, "month", "UTC")
	b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Resource: "gpt-4"}, limits))
	b.fresh()
	b.take("user", "gpt-4", args{"tpd": 100})
	b.balance("user", "gpt-4", "tpd", 900)
	b.at(midnight.AddDate(0, 0, 1))
	if b.py.take("user", "gpt-4", args{"rpd": 100, "tpd": 100}) {
		b.Error("Python was refused what had accrued")
	}
	b.balance("user", "gpt-4", "tpd", 800)
	b.at(midnight.AddDate(0, 1, 0))
	b.py.take("user", "gpt-4", args{"tpd": 100})
	b.balance("user", "gpt-4", "tpd", 900)
}

var quotaConfigCases = []interopCase{
	{"quotas of every level", func(b *both) {
		for i, l := range interopLevels {
			want := b.quotaLimits(int64(100 + i))
			with := args{"limits": asPython(want...)}
			maps.Copy(with, l.where)
			b.py.call(l.set, with, nil)
			b.agree(l, want)
			want = b.quotaLimits(int64(1000 + i))
			if l.key == (limiter.ConfigKey{}) {
				b.must(b.store.SetSystem(b.Context(), want, ""))
			} else {
				b.must(b.store.SetLimits(b.Context(), l.key, want))
			}
			b.agree(l, want)
		}
	}},
	{"quotas set by the program", func(b *both) {
		if _, code := b.run("resource", "set-defaults", "gpt-4", "--limit", "rpd:1000@day at 06:30@Europe/Berlin", "--limit", "rpm:60/min"); code != 0 {
			b.Fatalf("exit code %d", code)
		}
		b.agree(interopLevels[1], []limiter.Limit{b.quota("rpd", 1000, "day at 06:30", "Europe/Berlin"), limiter.PerMinute("rpm", 60)})
	}},
	{"a manifest of quotas is the same to both", func(b *both) {
		namespace, _ := b.store.Namespace()
		text := `{"namespace": "` + namespace + `", "resources": {"gpt-4": {"limits": {
			"rpd": {"capacity": 100, "reset_schedule": [{"cron": "0 0 * * *", "tz": "Asia/Tokyo"}, {"cron": "0 9 * * MON", "tz": "Asia/Tokyo"}]},
			"rpm": {"capacity": 60}}}}}`
		want := []limiter.Limit{b.quota("rpd", 100, "day; week from monday at 09:00", "Asia/Tokyo"), limiter.PerMinute("rpm", 60)}
		b.actions("Python", b.provision("apply", text), "create resource")
		b.actions("we", b.plan(text), "unchanged resource")
		b.must(b.store.DeleteLimits(b.Context(), interopLevels[1].key))
		b.apply(text)
		b.agree(interopLevels[1], want)
	}},
	{"Python refuses what cron cannot say", func(b *both) {
		b.system(b.quota("rpd", 100, "month from last day", "UTC"))
		b.take("user", "gpt-4", args{"rpd": 10})
		for _, entity := range []string{"user", "fresh"} {
			err := b.py.try("acquire", args{"entity": entity, "resource": "gpt-4", "consume": args{"rpd": 1000}}, nil)
			if thrown := (*pythonError)(nil); !errors.As(err, &thrown) || thrown.Class != "RateLimiterUnavailable" {
				b.Errorf("%s: %v", entity, err)
			}
		}
		b.books("user", "gpt-4", "rpd", 100, 10)
	}},
	{"Go refuses a quota that never renews, which Python accepts", func(b *both) {
		spec := args{"name": "rpd", "capacity": 100, "refill_amount": 0, "refill_period_seconds": 1, "reset": []string{"* * * * *"}}
		b.py.call("set_resource_defaults", args{"resource": "gpt-4", "limits": []args{spec}}, nil)
		if _, err := b.Acquire(b.Context(), request("user", "gpt-4", args{"rpd": 1})); !errors.Is(err, limiter.ErrUnsupported) {
			b.Errorf("%v, want %v", err, limiter.ErrUnsupported)
		}
	}},
	{"a default of the item, and a limit that opts out", (*both).itemDefault},
}
