package manifest

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// entries reads a list of entries, each with five fields of cron and a time zone, which is
// the same for all. begin returns the other fields of the next entry, and where its cron
// goes. An entry with an end needs no cron.
func (r *reader) entries(list place, key string, begin func(place) (fields map[string]func(place), cron *string)) (zones []string) {
	r.Items(list, func(_ int, item place) {
		fields, cron := begin(item)
		zone := "UTC"
		fields["cron"] = func(p place) { *cron = r.cron(p) }
		fields["tz"] = func(p place) { zone = r.text(p) }
		r.Fields(item, fields)
		if zones = append(zones, zone); item.IsMapping() && !item.Has("cron") && !item.Has(until) {
			r.Find(item, `cron is missing: give cron: "0 0 * * *", for instance`)
		}
	})
	if list.IsList() && list.Len() == 0 {
		r.Find(list, "give at least one entry, or remove %s", key)
	}
	for _, zone := range zones {
		if zone != zones[0] {
			r.Find(list, "the entries have the time zones %s and %s: give all of them the same", zones[0], zone)
		}
	}
	return zones
}

// schedule reads when a limit has other parameters, and which, as the peer has it.
func (r *reader) schedule(list place) *store.Schedule {
	var all []*store.ScheduleEntry
	before := len(r.Findings)
	zones := r.entries(list, "schedule", func(place) (map[string]func(place), *string) {
		e := &store.ScheduleEntry{}
		all = append(all, e)
		return map[string]func(place){
			until:                   func(p place) { e.Until = r.instant(p) },
			"scale":                 func(p place) { e.Permille = r.scale(p) },
			"capacity":              func(p place) { e.Capacity = r.number(p, store.MaxTokens) },
			"refill_amount":         func(p place) { e.Amount = r.number(p, store.MaxTokens) },
			"refill_period_seconds": func(p place) { e.Seconds = r.number(p, int64(store.MaxPeriod/time.Second)) },
		}, &e.Cron
	})
	if len(r.Findings) > before || len(all) == 0 {
		return nil
	}
	entries := make([]store.ScheduleEntry, len(all))
	for i, e := range all {
		entries[i] = *e
	}
	s, err := store.NewSchedule(entries, cmp.Or(zones...))
	r.Invalid(list, err)
	return s
}

// until is the key of the end of an entry.
const until = "until"

// instant reads an instant, in milliseconds.
func (r *reader) instant(p place) int64 {
	text, ok := r.Text(p)
	t, err := time.Parse(time.RFC3339, text)
	if ok && err != nil {
		r.Find(p, `give an instant, "2026-12-31T18:00:00Z" for instance, not %q`, text)
	}
	return t.UnixMilli()
}

// scale reads a factor, in thousandths, rounded as the peer rounds it.
func (r *reader) scale(p place) int64 {
	const most, thousand = 1e6, 1000
	f, err := strconv.ParseFloat(p.Node.Value, 64)
	if !p.IsScalar() || p.IsString() || err != nil || f <= 0 || f > most {
		r.Find(p, "give a number above 0 and up to 1000000, 0.5 for instance, not %s", p.Describe())
		return 0
	}
	return max(1, int64(math.RoundToEven(f*thousand)))
}
