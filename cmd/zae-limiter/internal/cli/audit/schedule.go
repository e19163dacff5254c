package audit

import (
	"math"
	"strconv"

	"github.com/zeroae/zae-limiter-go/store"
)

// scheduleOf reads the entries of a limit's schedule as events have them; nil for anything
// with more or with less.
func scheduleOf(v any) *store.Schedule {
	list, _ := v.([]any)
	entries := make([]store.ScheduleEntry, 0, len(list))
	zone := ""
	for i, item := range list {
		of, _ := item.(map[string]any)
		e := store.ScheduleEntry{}
		in, isZone := of["tz"].(string)
		if !isZone || i > 0 && in != zone {
			return nil
		}
		fields := 1
		if cron, has := of["cron"].(string); has {
			e.Cron = cron
			fields++
		}
		for name, to := range map[string]*int64{"until": &e.Until, "capacity": &e.Capacity, "refill_amount": &e.Amount, "refill_period_seconds": &e.Seconds} {
			if n, has := of[name].(int64); has {
				*to = n
				fields++
			}
		}
		if scale, has := of["scale"]; has {
			e.Permille = permille(scale)
			fields++
		}
		if fields != len(of) {
			return nil
		}
		entries, zone = append(entries, e), in
	}
	s, err := store.NewSchedule(entries, zone)
	if err != nil {
		return nil
	}
	return s
}

// permille is a factor of an event in thousandths.
func permille(v any) int64 {
	const thousand = 1000
	switch v := v.(type) {
	case int64:
		return v * thousand
	case float64:
		return int64(math.RoundToEven(v * thousand))
	case string:
		f, _ := strconv.ParseFloat(v, 64)
		return int64(math.RoundToEven(f * thousand))
	}
	return 0
}
