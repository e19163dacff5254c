package app

import (
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

// PrintLevel writes a level of configuration.
func (a *App) PrintLevel(l manage.Level) error {
	return a.Print(l, func(w *strings.Builder) { levelText(w, &l) })
}

// levelText writes a level for people.
func levelText(w *strings.Builder, l *manage.Level) {
	c := l.Stored()
	if l.DryRun {
		w.WriteString("dry run, nothing was changed: without --dry-run, the level would have\n")
	}
	rows := make([][]string, len(c.Limits))
	for i, l := range c.Limits {
		rows[i] = []string{l.Name, limitarg.Rate(l)}
	}
	if len(rows) > 0 {
		Table(w, []string{"LIMIT", "RATE"}, rows)
	} else {
		w.WriteString("no limits\n")
	}
	if len(c.Slots) > 0 {
		Fields(w, "Slots", limitarg.FormatSlots(c.Slots))
	}
	if c.OnUnavailable != "" {
		Fields(w, "On unavailable", string(c.OnUnavailable))
	}
	if l.Bypassed {
		Fields(w, "Bypassed", switchText(true, l.SwitchEndsAt))
	} else if l.Disabled != nil {
		Fields(w, "Disabled", switchText(*l.Disabled, l.SwitchEndsAt))
	}
	if l.Cascade != nil {
		Fields(w, "Cascades", switchText(*l.Cascade, nil))
	}
	if !c.IsEvaluable() {
		Fields(w, "Not evaluated by this version", l.Unsupported)
	}
	bucketsText(w, l.Buckets)
}

// switchText is the switch of a level for people.
func switchText(disabled bool, until *time.Time) string {
	text := "no, whatever later levels say"
	if disabled {
		text = "yes"
	}
	if until != nil {
		text += ", until " + until.Format(time.RFC3339)
	}
	return text
}
