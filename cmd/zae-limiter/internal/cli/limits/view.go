package limits

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

// levelText writes a level for people, in one line.
func levelText(l *manage.PlannedLevel) string {
	if l == nil {
		return ""
	}
	var parts []string
	for _, limit := range l.Limits {
		parts = append(parts, limit.Limit)
	}
	if l.OnUnavailable != "" {
		parts = append(parts, "on unavailable "+string(l.OnUnavailable))
	}
	if policies := policies(l); len(policies) > 0 {
		parts = append(parts, strings.Join(policies, ", "))
	}
	return strings.Join(parts, " ")
}

// policies are the parts of a level that are neither limits nor for an outage: its policies, and
// the parent of an entity.
func policies(l *manage.PlannedLevel) (parts []string) {
	if l.Parent != nil {
		parts = append(parts, map[bool]string{true: "no parent", false: "parent " + *l.Parent}[*l.Parent == ""])
	}
	if l.Cascade != nil {
		parts = append(parts, map[bool]string{true: "cascades", false: "does not cascade"}[*l.Cascade])
	}
	for _, name := range slices.Sorted(maps.Keys(l.Slots)) {
		parts = append(parts, fmt.Sprintf("slots %s:%d", name, l.Slots[name]))
	}
	if s := switched(l); s != "" {
		parts = append(parts, s)
	}
	return parts
}

// switched writes the switch of a level, "" if there is none.
func switched(l *manage.PlannedLevel) string {
	if l.Disabled == nil {
		return ""
	}
	text := map[bool]string{true: "disabled", false: "enabled"}[*l.Disabled]
	if l.EndsAt != nil {
		text += " until " + l.EndsAt.Format(time.RFC3339)
	}
	return text
}

// planText writes a plan for people.
func planText(w *strings.Builder, v *manage.Plan) {
	fmt.Fprintf(w, "Manifest %s in namespace %s: ", v.Manifest, v.Namespace)
	if v.Counts.Create+v.Counts.Update+v.Counts.Delete+v.Counts.Conflict == 0 {
		fmt.Fprintf(w, "no changes, %s as declared.\n", levels(v.Counts.Unchanged+v.Counts.Adopt))
	} else {
		fmt.Fprintf(w, "%d to create, %d to update, %d to delete, %d unchanged.\n", v.Counts.Create, v.Counts.Update, v.Counts.Delete, v.Counts.Unchanged+v.Counts.Adopt)
	}
	if v.Counts.Conflict > 0 {
		fmt.Fprintf(w, "%s to another manifest, and cannot be changed.\n", belong(v.Counts.Conflict))
	}
	changeTable(w, v.Changes)
}

func levels(n int) string {
	if n == 1 {
		return "1 level is"
	}
	return fmt.Sprintf("%d levels are", n)
}

func belong(n int) string {
	if n == 1 {
		return "1 level belongs"
	}
	return fmt.Sprintf("%d levels belong", n)
}

func changeTable(w *strings.Builder, changes []manage.PlannedChange) {
	if len(changes) == 0 {
		return
	}
	rows := make([][]string, len(changes))
	for i := range changes {
		c := &changes[i]
		rows[i] = []string{string(c.Action), c.Row(), levelText(c.Before), levelText(c.After), c.Note}
	}
	app.Table(w, []string{"ACTION", "LEVEL", "BEFORE", "AFTER", "NOTE"}, rows)
}
