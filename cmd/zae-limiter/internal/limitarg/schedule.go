package limitarg

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// parseScheduled reads a rate, and the entries of its schedule with an optional zone:
// entries[@zone].
func parseScheduled(rate, s string) (store.Limit, error) {
	l, err := Parse(rate)
	if err != nil {
		return store.Limit{}, err
	}
	entries, zone, _ := strings.Cut(s, "@")
	if l.Varies, err = store.ParseSchedule(entries, strings.TrimSpace(zone)); err != nil {
		return store.Limit{}, err
	}
	return l, l.Validate()
}

// formatSchedule writes the schedule of a limit, as [Parse] reads it; "" if it has none.
func formatSchedule(l store.Limit) string {
	if l.Varies == nil {
		return ""
	}
	s := "; " + l.Varies.String()
	if zone := l.Varies.Zone(); zone != utc && (l.Renews == nil || l.Renews.Zone() != zone) {
		s += "@" + zone
	}
	return s
}
