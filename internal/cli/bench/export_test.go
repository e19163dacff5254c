package bench

import (
	"io"
	"time"
)

// ShowBar draws a bar at each given part of a second, and clears it.
func ShowBar(w io.Writer, parts ...time.Duration) {
	b := &bar{w: w}
	for _, p := range parts {
		b.show(p, time.Second)
	}
	b.clear()
}

// HasBar reports whether a bar would be shown on w.
func HasBar(w io.Writer) bool { return newBar(w) != nil }
