// Package backup has the commands for backups of the table.
package backup

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
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

// view is a backup in JSON.
type view struct {
	ARN     string     `json:"backup_arn"`
	Name    string     `json:"backup_name"`
	Status  string     `json:"status"`
	Created time.Time  `json:"created_at"`
	Expires *time.Time `json:"expires_at,omitempty"`
	Bytes   int64      `json:"bytes"`
}

func viewOf(b *admin.Backup) view {
	v := view{ARN: b.ARN, Name: b.Name, Status: b.Status, Created: b.Created.UTC(), Bytes: b.Bytes}
	if !b.Expires.IsZero() {
		at := b.Expires.UTC()
		v.Expires = &at
	}
	return v
}

// checkARN checks the ARN of a backup. AWS would answer a wrong one with an error of its own.
func checkARN(name, arn string) error {
	if !strings.HasPrefix(arn, "arn:") || strings.ContainsFunc(arn, unicode.IsSpace) {
		return fmt.Errorf("invalid %s %q: give the ARN of a backup, as zae-limiter backup list shows it", name, arn)
	}
	return nil
}
