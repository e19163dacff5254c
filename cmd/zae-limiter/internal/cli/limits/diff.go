package limits

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

type diffOptions struct {
	file
	detailed bool
}

func newDiff(a *app.App) *cobra.Command {
	o := &diffOptions{file: file{app: a}}
	cmd := a.Command(o, &cobra.Command{
		Use: "diff", Short: "Show how the table differs from a manifest, limit by limit",
		Long: "Show how the table differs from a manifest, limit by limit: - is in the table, + in the\n" +
			"manifest. It writes nothing.",
		Example: "  zae-limiter limits diff -f limits.yaml --detailed-exitcode",
	})
	o.bind(cmd)
	bindDetailed(a, cmd, &o.detailed)
	return a.Prints(cmd, differences{})
}

// A difference is one level that differs.
type difference struct {
	Level   string   `json:"level"`            // system, resource or entity
	Target  string   `json:"target,omitempty"` // the resource, or entity and resource
	Removed []string `json:"removed"`          // what the manifest lacks
	Added   []string `json:"added"`            // what the table lacks
	Drift   bool     `json:"drift,omitempty"`  // somebody changed the level by hand
	Note    string   `json:"note,omitempty"`
	name    string
}

// differences are the result in JSON.
type differences struct {
	Differences []difference `json:"differences"` // one for each level that differs
}

// Run shows the differences.
func (o *diffOptions) Run(ctx context.Context) error {
	of, m, err := o.open(ctx)
	if err != nil {
		return err
	}
	p, err := m.Plan(ctx, of, true)
	if err != nil {
		return err
	}
	all := []difference{}
	for i := range p.Changes {
		if d := differenceOf(&p.Changes[i], o.app.Clock()); len(d.Removed)+len(d.Added) > 0 {
			all = append(all, d)
		}
	}
	err = o.app.Print(differences{all}, func(w *strings.Builder) {
		for _, d := range all {
			d.text(w)
		}
		if len(all) == 0 {
			fmt.Fprintf(w, "no differences\n")
		}
	})
	if err == nil && o.detailed && len(all) > 0 {
		return app.ErrChanges
	}
	return err
}

// differenceOf compares the declared parts of a level with what the table holds.
func differenceOf(c *manifest.Change, now time.Time) difference {
	v := manage.ChangeOf(c, now)
	d := difference{Level: v.Level, Target: v.Target, Removed: []string{}, Added: []string{}, Drift: c.Drift, Note: v.Note, name: v.Row()}
	if c.Entity != nil && c.After == nil {
		return d // no apply deletes an entity
	}
	before, after := parts(v.Before), parts(v.After)
	for _, part := range before {
		isLimit := part != onUnavailable(v.Before) && !slices.Contains(policies(v.Before), part)
		undeclared := v.After != nil && (isLimit && len(v.After.Limits) == 0 || part == onUnavailable(v.Before) && v.After.OnUnavailable == "")
		if !slices.Contains(after, part) && !undeclared {
			d.Removed = append(d.Removed, part)
		}
	}
	for _, part := range after {
		if !slices.Contains(before, part) {
			d.Added = append(d.Added, part)
		}
	}
	return d
}

// parts are the limits of a level, its behaviour in an outage, its policies, and the parent of an
// entity.
func parts(l *manage.PlannedLevel) []string {
	if l == nil {
		return nil
	}
	var all []string
	for _, limit := range l.Limits {
		all = append(all, limit.Limit)
	}
	if on := onUnavailable(l); on != "" {
		all = append(all, on)
	}
	return append(all, policies(l)...)
}

func onUnavailable(l *manage.PlannedLevel) string {
	if l.OnUnavailable == "" {
		return ""
	}
	return "on unavailable: " + string(l.OnUnavailable)
}

func (d *difference) text(w *strings.Builder) {
	fmt.Fprint(w, d.name)
	if d.Note != "" {
		fmt.Fprintf(w, " (%s)", d.Note)
	}
	w.WriteByte('\n')
	for _, part := range d.Removed {
		fmt.Fprintf(w, "  - %s\n", part)
	}
	for _, part := range d.Added {
		fmt.Fprintf(w, "  + %s\n", part)
	}
}
