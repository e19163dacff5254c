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
			return limitarg.Format(l)
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
	const fields = 4
	if len(m) != fields || !isName || !isCapacity || !isAmount || !isSeconds {
		return store.Limit{}, false
	}
	l = store.Limit{Name: name, Capacity: capacity, Amount: amount, Period: time.Duration(seconds) * time.Second}
	return l, store.ValidateLimits([]store.Limit{l}) == nil
}
