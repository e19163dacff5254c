package app

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

// allWindows are the windows of usage.
var allWindows = []usage.Window{usage.Hourly, usage.Daily, usage.Monthly}

// windowUnits are shorter names of the windows. They are understood, and never written.
var windowUnits = []string{"hour", "day", "month"}

// windowOf reads a window by its name, or by its unit.
func windowOf(name string) (usage.Window, error) {
	for i, w := range allWindows {
		if name == w.String() || name == windowUnits[i] {
			return w, nil
		}
	}
	return 0, errors.New("give hourly, daily or monthly")
}

// WindowNames are the names of windows.
func WindowNames(of []usage.Window) []string {
	names := make([]string, len(of))
	for i, w := range of {
		names[i] = w.String()
	}
	return names
}

// Window is the value of a flag for a window of usage.
func Window(target *usage.Window) pflag.Value { return (*window)(target) }

type window usage.Window

func (w *window) String() string { return usage.Window(*w).String() }

// Set reads the window.
func (w *window) Set(s string) error {
	of, err := windowOf(s)
	if err == nil {
		*w = window(of)
	}
	return err
}

// Type is the value's name in help.
func (w *window) Type() string { return strings.Join(w.Words(), "|") }

// Words are the words that the flag accepts, for completion.
func (*window) Words() []string { return WindowNames(allWindows) }
