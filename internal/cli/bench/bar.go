package bench

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A bar shows the progress on a terminal. A nil bar shows nothing.
type bar struct {
	w   io.Writer
	bar *progressbar.ProgressBar // nil before the first call of show
}

// newBar is nil unless w is a terminal.
func newBar(w io.Writer) *bar {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return &bar{w: w}
}

// show draws the bar. It ignores errors: the bar is not a result.
func (b *bar) show(done, planned time.Duration) {
	const width = 40
	if b.bar == nil {
		b.bar = progressbar.NewOptions64(planned.Milliseconds(),
			progressbar.OptionSetWriter(b.w), progressbar.OptionSetWidth(width),
			progressbar.OptionSetDescription("measuring"), progressbar.OptionClearOnFinish())
	}
	_ = b.bar.Set64(done.Milliseconds())
}

// clear removes the bar from the terminal.
func (b *bar) clear() {
	if b != nil && b.bar != nil {
		_ = b.bar.Clear()
	}
}
