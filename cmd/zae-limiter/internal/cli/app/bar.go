package app

import "fmt"

// A Bar shows the progress on a terminal, and nothing elsewhere. It ignores errors: it is not a
// result.
type Bar struct {
	live        *Live
	name, shown string
}

// Bar is a bar with a name on standard error.
func (a *App) Bar(name string) *Bar { return &Bar{live: a.Live(a.Stderr), name: name} }

// Show draws the bar. A whole of -1 is not known.
func (b *Bar) Show(done, whole int64) {
	const width, percent, megabyte = 40, 100, 1 << 20
	text := fmt.Sprintf("%s: %d MB", b.name, done/megabyte)
	if whole > 0 {
		part := float64(done) / float64(whole)
		text = fmt.Sprintf("%s %3.0f%% [%s]", b.name, percent*part, Gauge(part, width))
	}
	if b.live.Redraws() && text != b.shown {
		b.shown = text
		_ = b.live.Draw([]string{text})
	}
}

// Clear removes the bar from the terminal.
func (b *Bar) Clear() {
	if b.shown != "" {
		_ = b.live.Draw(nil)
	}
}
