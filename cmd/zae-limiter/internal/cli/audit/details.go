package audit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/store"
)

// pairs writes the details of an event for people: key=value by key. Limits have the form of
// the flag --limit. Text is quoted if it has a space or a mark of this form.
func pairs(m map[string]any) string {
	parts := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, word(key)+"="+valueText(m[key]))
	}
	return strings.Join(parts, " ")
}

func valueText(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return word(v)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = valueText(item)
		}
		if len(items) == 0 {
			return "[]"
		}
		return strings.Join(items, ",")
	case map[string]any:
		if l, ok := limitOf(v); ok {
			return word(limitarg.Format(l)) // a calendar may have spaces
		}
		return "{" + pairs(v) + "}"
	}
	return fmt.Sprint(v)
}

// word is text as it is, or quoted where it would be misread.
func word(s string) string {
	if s == "" || strings.ContainsAny(s, " ,={}[]\"") || strconv.Quote(s) != `"`+s+`"` {
		return strconv.Quote(s)
	}
	return s
}

// limitOf reads a limit as events have it. It fails for anything with more or with less.
func limitOf(m map[string]any) (l store.Limit, ok bool) {
	name, isName := m["name"].(string)
	capacity, isCapacity := m["capacity"].(int64)
	amount, isAmount := m["refill_amount"].(int64)
	seconds, isSeconds := m["refill_period_seconds"].(int64)
	fields := 4
	if !isName || !isCapacity || !isAmount || !isSeconds {
		return store.Limit{}, false
	}
	l = store.Limit{Name: name, Capacity: capacity, Amount: amount, Period: time.Duration(seconds) * time.Second}
	if words, zone, more := renewalOf(m); more > 0 {
		r, err := store.ParseRenewal(words, zone)
		if err != nil {
			return store.Limit{}, false
		}
		fields += more
		l.Renews, l.Period = r, 0
	}
	if entries, has := m["schedule"]; has {
		if l.Varies = scheduleOf(entries); l.Varies == nil {
			return store.Limit{}, false
		}
		fields++
	}
	if soft, has := m["soft"]; has {
		if l.Soft = soft == true; !l.Soft {
			return store.Limit{}, false
		}
		fields++
	}
	if mode, has := m["mode"].(string); has {
		var err error
		if l, err = l.InMode(mode); err != nil {
			return store.Limit{}, false
		}
		fields++
	}
	if percent, has := m["returns"].(int64); has {
		l.Returns = int(percent)
		fields++
	}
	if most, has := m["rollover"].(int64); has {
		l.Carries.Rollover = most
		fields++
	}
	if debt, has := m["carry_debt"].(bool); has && debt {
		l.Carries.Debt = true
		fields++
	}
	return l, len(m) == fields && store.ValidateLimits([]store.Limit{l}) == nil
}

// renewalOf reads when a quota renews, from so many fields of a limit: in words, or the entries
// of the Python package.
func renewalOf(m map[string]any) (words, zone string, fields int) {
	words, isWords := m["renews"].(string)
	zone, isZone := m["zone"].(string)
	if isWords && isZone {
		return words, zone, 2
	}
	if seconds, isSession := m["reset_after_seconds"].(int64); isSession {
		return fmt.Sprintf("session %ds", seconds), "", 1
	}
	entries, _ := m["reset_schedule"].([]any)
	patterns := make([]string, 0, len(entries))
	for i, entry := range entries {
		of, _ := entry.(map[string]any)
		pattern, isPattern := of["cron"].(string)
		in, isIn := of["tz"].(string)
		if !isPattern || !isIn || len(of) != 2 || i > 0 && in != zone {
			return "", "", 0
		}
		patterns, zone = append(patterns, pattern), in
	}
	if len(patterns) == 0 {
		return "", "", 0
	}
	return strings.Join(patterns, ";"), zone, 1
}
