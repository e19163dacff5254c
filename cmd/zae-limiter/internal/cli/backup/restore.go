package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
)

type restoreOptions struct {
	app     *app.App
	to      string
	restore admin.Restore
}

func newRestore(a *app.App) *cobra.Command {
	o := &restoreOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "restore NEW-TABLE",
		Short: "Restore the table into a new one, from a backup or as it was at a time",
		Long: "Restore the table into a new one, from a backup or as it was at a time, and wait until it is\n" +
			"ready. The command then gives the new table what a restoration loses: time to live, stream,\n" +
			"point-in-time recovery, tags and deletion protection. It never writes to a live table.\n\n" +
			"docs/backup.md says how to switch over.",
		Example: "  zae-limiter backup restore limits-restored --table limits --to-time 2026-01-02T15:04:05Z\n" +
			"  zae-limiter backup restore limits-before --table limits --backup ARN",
	}, &o.restore.Into)
	f := cmd.Flags()
	f.Var(app.Named(&o.restore.Backup), "backup", "`ARN` of an on-demand backup")
	f.Var(app.Named(&o.to), "to-time", "`time` to restore, 2026-01-02T15:04:05Z for instance; needs\npoint-in-time recovery")
	f.BoolVar(&o.restore.Resume, "resume", false, "complete a restoration into NEW-TABLE that was interrupted")
	return a.Prints(cmd, restoredView{})
}

// Validate checks the flags.
func (o *restoreOptions) Validate() (err error) {
	given := 0
	for _, is := range []bool{o.restore.Backup != "", o.to != "", o.restore.Resume} {
		if is {
			given++
		}
	}
	if given != 1 {
		return errors.New("give one of --backup, --to-time and --resume")
	}
	if o.to != "" {
		if o.restore.To, err = time.Parse(time.RFC3339, o.to); err != nil {
			return fmt.Errorf("invalid --to-time %q: give a time like 2006-01-02T15:04:05Z", o.to)
		}
	}
	if o.restore.Backup != "" {
		if err := checkARN("--backup", o.restore.Backup); err != nil {
			return err
		}
	}
	if err := app.CheckTable(o.restore.Into); err != nil {
		return fmt.Errorf("invalid name %q of the new table: %w", o.restore.Into, err)
	}
	return o.restore.Validate(o.app.Flags.Table)
}

// restoredView is the result in JSON.
type restoredView struct {
	Table   string   `json:"table_name"`
	Enabled []string `json:"enabled_again"` // settings that a restore loses, and that are enabled again
}

// Run restores the table.
func (o *restoreOptions) Run(ctx context.Context) error {
	table, err := o.app.Table(ctx)
	if err != nil {
		return err
	}
	done, err := table.Restore(ctx, o.restore)
	if err != nil {
		return err
	}
	enabled := done.Enabled
	if enabled == nil {
		enabled = []string{}
	}
	return o.app.Print(restoredView{done.Table, enabled}, func(w *strings.Builder) {
		fmt.Fprintf(w, "table %s is ready\n", done.Table)
		app.Fields(w, "Enabled again", strings.Join(enabled, ", "))
		fmt.Fprintf(w, "Next: zae-limiter check -n %s, then switch programs and the aggregator to it (docs/backup.md)\n", done.Table)
	})
}
