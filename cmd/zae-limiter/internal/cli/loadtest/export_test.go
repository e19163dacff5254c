package loadtest

import (
	"io"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	load "github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
)

// LiveView is the view on a terminal: it shows states, and removes itself.
func LiveView(w io.Writer, s *scenario.Scenario) (show func(load.Progress), remove func()) {
	v := &view{w: w, live: app.LiveOn(w, func() (int, int) { return 120, 40 }), names: s}
	return v.show, v.clear
}

// PlainView is the view without a terminal: it shows states as lines.
func PlainView(w io.Writer, s *scenario.Scenario) (show func(load.Progress)) {
	return (&view{w: w, live: (&app.App{}).Live(w), names: s}).show
}

// CarryWithLocust is what the function of workers carries jobs out with.
var CarryWithLocust = carryWithLocust
