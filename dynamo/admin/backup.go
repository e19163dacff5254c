package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Backup is an on-demand backup of the table.
type Backup struct {
	ARN, Name, Status string
	Created           time.Time
	Expires           time.Time // zero if never
	Bytes             int64
}

// CreateBackup makes an on-demand backup of a name and waits until it is available. It
// fails with [ErrNoBackups] on a server without backups. DynamoDB allows several backups
// of one name: after a lost answer, look at [Table.Backups] before another try.
func (t *Table) CreateBackup(ctx context.Context, name string) (Backup, error) {
	op := "back up table " + t.o.Table
	if err := CheckBackupName(name); err != nil {
		return Backup{}, err
	}
	if t.backups == nil {
		return Backup{}, fmt.Errorf("%s: %w", op, ErrNoBackups)
	}
	out, err := conn.Call(ctx, t.conn, op, t.backups.CreateBackup, &dynamodb.CreateBackupInput{TableName: &t.o.Table, BackupName: &name})
	if err != nil {
		return Backup{}, backupError(op, err)
	}
	b := backupOf(out.BackupDetails)
	return b, t.await(ctx, op, "backup "+b.ARN+" to be AVAILABLE", func(ctx context.Context) (bool, error) {
		described, err := t.describeBackup(ctx, op, b.ARN)
		if err != nil {
			return false, err
		}
		b = backupOf(described.BackupDetails)
		return b.Status == string(types.BackupStatusAvailable), nil
	})
}

// CheckBackupName fails with a [*store.ValidationError] if DynamoDB accepts no backup of a
// name.
func CheckBackupName(name string) error {
	const least, most = 3, 255
	if len(name) < least || len(name) > most || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
		return &store.ValidationError{Field: "backup name", Value: name, Reason: `use 3 to 255 letters, digits and "_.-"`}
	}
	return nil
}

func backupOf(d *types.BackupDetails) Backup {
	return Backup{aws.ToString(d.BackupArn), aws.ToString(d.BackupName), string(d.BackupStatus), aws.ToTime(d.BackupCreationDateTime), aws.ToTime(d.BackupExpiryDateTime), aws.ToInt64(d.BackupSizeBytes)}
}

// describeBackup describes a backup of this table. It fails with [store.ErrNotFound] if
// there is none of that ARN, and with a [*store.ValidationError] if it is of another table.
func (t *Table) describeBackup(ctx context.Context, op, arn string) (*types.BackupDescription, error) {
	if t.backups == nil {
		return nil, fmt.Errorf("%s: %w", op, ErrNoBackups)
	}
	out, err := conn.Call(ctx, t.conn, op, t.backups.DescribeBackup, &dynamodb.DescribeBackupInput{BackupArn: &arn})
	if missing := (*types.BackupNotFoundException)(nil); errors.As(err, &missing) {
		return nil, fmt.Errorf("%s: %w", op, &store.NotFoundError{Kind: "backup", Name: arn, Hint: "zae-limiter backup list shows those of the table"})
	}
	if err != nil {
		return nil, backupError(op, err)
	}
	if of := out.BackupDescription.SourceTableDetails; of != nil && aws.ToString(of.TableName) != t.o.Table {
		return nil, &store.ValidationError{Field: "backup", Value: arn, Reason: fmt.Sprintf("it is of table %s, not of %s", aws.ToString(of.TableName), t.o.Table)}
	}
	return out.BackupDescription, nil
}

// Backups returns the on-demand backups of the table, the newest first. The table itself
// need not exist any more.
func (t *Table) Backups(ctx context.Context) ([]Backup, error) {
	op := "list the backups of " + t.o.Table
	if t.backups == nil {
		return nil, fmt.Errorf("%s: %w", op, ErrNoBackups)
	}
	all := []Backup{}
	in := &dynamodb.ListBackupsInput{TableName: &t.o.Table}
	for {
		out, err := conn.Call(ctx, t.conn, op, t.backups.ListBackups, in)
		if err != nil {
			return nil, backupError(op, err)
		}
		for i := range out.BackupSummaries {
			s := &out.BackupSummaries[i]
			all = append(all, Backup{aws.ToString(s.BackupArn), aws.ToString(s.BackupName), string(s.BackupStatus), aws.ToTime(s.BackupCreationDateTime), aws.ToTime(s.BackupExpiryDateTime), aws.ToInt64(s.BackupSizeBytes)})
		}
		if out.LastEvaluatedBackupArn == nil {
			break
		}
		in.ExclusiveStartBackupArn = out.LastEvaluatedBackupArn
	}
	slices.SortStableFunc(all, func(a, b Backup) int { return b.Created.Compare(a.Created) })
	return all, nil
}

// DeleteBackup deletes a backup of this table by ARN.
func (t *Table) DeleteBackup(ctx context.Context, arn string) error {
	op := "delete backup " + arn
	if _, err := t.describeBackup(ctx, op, arn); err != nil {
		return err
	}
	_, err := conn.Call(ctx, t.conn, op, t.backups.DeleteBackup, &dynamodb.DeleteBackupInput{BackupArn: &arn})
	return err
}
