package audit_test

import (
	"maps"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/audit"
)

// Details read as the command line writes the same things, and no text looks like another.
func TestDetailsAreReadable(t *testing.T) {
	t.Parallel()
	limit := func(capacity any) map[string]any {
		return map[string]any{"name": "rpm", "capacity": capacity, "refill_amount": int64(10), "refill_period_seconds": int64(60)}
	}
	quota := func(more map[string]any) map[string]any {
		of := map[string]any{"name": "rpd", "capacity": int64(7), "refill_amount": int64(0), "refill_period_seconds": int64(1)}
		maps.Copy(of, more)
		return map[string]any{"limits": []any{of}}
	}
	entry := func(cron, tz string) any { return map[string]any{"cron": cron, "tz": tz} }
	more := limit(int64(10))
	more["mode"] = "quota"
	for want, details := range map[string]map[string]any{
		"":                                nil,
		"days=30 old_days=90":             {"old_days": int64(90), "days": int64(30)},
		"limits=rpm:10/min":               {"limits": []any{limit(int64(10))}},
		"limits=rpm:10/min:50,rpm:10/min": {"limits": []any{limit(int64(50)), limit(int64(10))}},
		"limits={capacity=x name=rpm refill_amount=10 refill_period_seconds=60}":             {"limits": []any{limit("x")}},
		"limits={capacity=10 mode=quota name=rpm refill_amount=10 refill_period_seconds=60}": {"limits": []any{more}},
		`limits=rpd:7@day`: quota(map[string]any{"reset_schedule": []any{entry("0 0 * * *", "UTC")}}),
		`limits="rpd:7@day at 06:30; month from day 15@Europe/Berlin"`: quota(map[string]any{"reset_schedule": []any{
			entry("30 6 * * *", "Europe/Berlin"), entry("0 0 15 * *", "Europe/Berlin"),
		}}),
		`limits="rpd:7@month from last day@Asia/Tokyo"`: quota(map[string]any{"renews": "month from last day", "zone": "Asia/Tokyo"}),
		`limits={capacity=7 name=rpd refill_amount=0 refill_period_seconds=1 reset_schedule={cron="0 0 L * *" tz=UTC}}`: quota(map[string]any{
			"reset_schedule": []any{entry("0 0 L * *", "UTC")},
		}),
		`limits="rpd:7@session 5h"`: quota(map[string]any{"reset_after_seconds": int64(18000)}),
		`a="" b="x y" c="k=v" d="1,2" e="[]" f="q\"q" g=key-1 h=null i=true j=1.5`: {
			"a": "", "b": "x y", "c": "k=v", "d": "1,2", "e": "[]", "f": `q"q`, "g": "key-1", "h": nil, "i": true, "j": 1.5,
		},
		`"a key"={b=[]} x="\x1b[2J"`: {"a key": map[string]any{"b": []any{}}, "x": "\x1b[2J"},
		"metadata={} names=a,b":      {"metadata": map[string]any{}, "names": []any{"a", "b"}},
	} {
		if got := audit.Pairs(details); got != want {
			t.Errorf("%v is %s, want %s", details, got, want)
		}
	}
}
