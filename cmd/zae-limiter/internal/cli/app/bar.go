package app

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
)

// A Bar shows the progress on a terminal. A nil bar shows nothing.
type Bar struct {
	w    io.Writer
	name string
	bar  *progressbar.ProgressBar // nil before the first call of Show
}

// NewBar returns a bar with a name; nil unless w is a terminal.
func NewBar(w io.Writer, name string) *Bar {
	if f, ok := w.(*os.File); !ok || !IsTerminal(f) {
		return nil
	}
	return &Bar{w: w, name: name}
}

// Show draws the bar. A whole of -1 is not known. It ignores errors: the bar is not a
// result.
func (b *Bar) Show(done, whole int64) {
	const width = 40
	if b == nil {
		return
	}
	if b.bar == nil {
		b.bar = progressbar.NewOptions64(whole,
			progressbar.OptionSetWriter(b.w), progressbar.OptionSetWidth(width),
			progressbar.OptionSetDescription(b.name), progressbar.OptionClearOnFinish())
	}
	_ = b.bar.Set64(done)
}

// Clear removes the bar from the terminal.
func (b *Bar) Clear() {
	if b != nil && b.bar != nil {
		_ = b.bar.Clear()
	}
}
