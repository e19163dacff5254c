package dynamo

import (
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Window is a length of time over which usage is added up. Windows begin on the
// hour, the day or the month in UTC. The zero Window is [Hourly].
type Window uint8

// The windows there are.
const (
	Hourly Window = iota
	Daily
	Monthly
)

var windowNames = [...]string{Hourly: "hourly", Daily: "daily", Monthly: "monthly"}

// ParseWindow reads what [Window.String] wrote. It fails with a
// [*store.ValidationError].
func ParseWindow(s string) (Window, error) {
	for i, name := range windowNames {
		if s == name {
			return Window(i), nil
		}
	}
	return 0, &store.ValidationError{Field: "window", Value: s, Reason: `give "hourly", "daily" or "monthly"`}
}

// String is hourly, daily or monthly.
func (w Window) String() string {
	if int(w) < len(windowNames) {
		return windowNames[w]
	}
	return "window " + strconv.Itoa(int(w))
}

// Start is when the window that holds an instant starts, in UTC.
func (w Window) Start(t time.Time) time.Time {
	year, month, day := t.UTC().Date()
	switch w {
	case Monthly:
		return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	case Daily:
		return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	default:
		return time.Date(year, month, day, t.UTC().Hour(), 0, 0, 0, time.UTC)
	}
}

// End is when the window that holds an instant ends, which is when the next one
// starts.
func (w Window) End(t time.Time) time.Time {
	start := w.Start(t)
	switch w {
	case Monthly:
		return start.AddDate(0, 1, 0)
	case Daily:
		return start.AddDate(0, 0, 1)
	default:
		return start.Add(time.Hour)
	}
}
