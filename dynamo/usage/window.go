package usage

import (
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Window is a length of time over which usage is added up. Windows begin on the hour,
// the day or the month in UTC. The zero Window is [Hourly].
type Window uint8

// The defined windows.
const (
	Hourly Window = iota
	Daily
	Monthly
)

var windowNames = [...]string{Hourly: "hourly", Daily: "daily", Monthly: "monthly"}

// parseWindow parses the output of [Window.String]. It fails with a
// [*store.ValidationError].
func parseWindow(s string) (Window, error) {
	for i, name := range windowNames {
		if s == name {
			return Window(i), nil
		}
	}
	return 0, &store.ValidationError{Field: "window", Value: s, Reason: `give "hourly", "daily" or "monthly"`}
}

func (w Window) check() error {
	_, err := parseWindow(w.String())
	return err
}

// String returns "hourly", "daily" or "monthly".
func (w Window) String() string {
	if int(w) < len(windowNames) {
		return windowNames[w]
	}
	return "window " + strconv.Itoa(int(w))
}

// Start returns the start, in UTC, of the window that contains t.
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

// End returns the end of the window that contains t, which is the start of the next
// window.
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
