// Package backup has the commands for backups of the table.
package backup

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/store"
)

// New is the command backup.
func New(a *app.App) *cobra.Command {
	cmd := app.Group("backup", "Back up the table, and restore it into a new one",
		newCreate(a), newList(a), newRestore(a), newDelete(a))
	cmd.Long = cmd.Short + ".\n\nAWS makes and keeps the backups. DynamoDB Local and zae-limiter local have none: stop\n" +
		"zae-limiter local and copy its directory instead. docs/backup.md tells how to switch to a\n" +
		"restored table."
	return cmd
}

// checkARN checks the ARN of a backup.
func checkARN(name, arn string) error {
	if invalid, ok := errors.AsType[*store.ValidationError](manage.CheckBackupARN(arn)); ok {
		return fmt.Errorf("invalid %s %q: %s", name, arn, invalid.Reason)
	}
	return nil
}
