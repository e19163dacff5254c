package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Restore says what to restore. Into is required, and either Backup or To.
type Restore struct {
	// Into is the name of the new table. It must not exist.
	Into string
	// Backup is the ARN of an on-demand backup.
	Backup string
	// To is the instant of point-in-time recovery to restore.
	To time.Time
	// Resume continues a restoration into the existing table Into that was interrupted. It
	// gives the table its settings; Backup and To are not used.
	Resume bool
}

// Validate checks a restoration of a table, as far as it needs no request. It fails with a
// [*store.ValidationError].
func (r *Restore) Validate(table string) error {
	switch {
	case r.Into == "" || r.Into == table:
		return &store.ValidationError{Field: "new table", Value: r.Into, Reason: "give the name of a table that does not exist yet"}
	case r.Resume:
		return nil
	case (r.Backup == "") == r.To.IsZero():
		return &store.ValidationError{Field: "restoration", Value: r.Backup, Reason: "give either a backup or a time"}
	}
	return nil
}

// A Restored says what a restoration has done.
type Restored struct {
	Table string
	// Enabled are the settings that a restoration loses, and which the new table has
	// again: "TTL", "stream", "PITR", "tags", "deletion protection".
	Enabled []string
}

// Restore makes a new table from a backup or from an instant of this one, and waits until
// it is ready. It then gives the table the settings that a restoration loses: time to
// live, stream, point-in-time recovery, tags and deletion protection. It takes the
// settings from this table as it is now. If this table is gone, Restore enables time to
// live, and the stream as the backup recorded it.
//
// Restore never writes to an existing table. With Resume, it writes to a table that AWS
// reports as restored from this table. It fails with [store.ErrExists] if the new table exists, and
// with [ErrNoBackups] on a server without backups.
func (t *Table) Restore(ctx context.Context, r Restore) (Restored, error) {
	op := "restore table " + t.o.Table + " into " + r.Into
	if err := r.Validate(t.o.Table); err != nil {
		return Restored{}, err
	}
	if t.backups == nil {
		return Restored{}, fmt.Errorf("%s: %w", op, ErrNoBackups)
	}
	settings, err := t.settings(ctx, op, r.Backup)
	if err != nil {
		return Restored{}, err
	}
	if err := t.startRestore(ctx, op, &r); err != nil {
		return Restored{}, err
	}
	o := t.o
	o.Table = r.Into
	into, err := New(o)
	if err != nil {
		return Restored{}, err
	}
	done := Restored{Table: r.Into}
	if err := into.awaitActive(ctx, op); err != nil {
		return done, err
	}
	if err := into.complete(ctx, op, settings, &done); err != nil {
		return done, fmt.Errorf("%w; run it again with --resume", err)
	}
	return done, nil
}

// complete applies the settings.
func (t *Table) complete(ctx context.Context, op string, s *settings, done *Restored) error {
	now, err := t.Describe(ctx)
	if err != nil {
		return err
	}
	return t.apply(ctx, op, s, now, done)
}

// startRestore begins the restoration, or finds the one to resume.
func (t *Table) startRestore(ctx context.Context, op string, r *Restore) error {
	into, there, err := t.exists(ctx, op, r.Into)
	switch {
	case err != nil:
		return err
	case r.Resume:
		return t.checkResumed(op, r.Into, into)
	case there:
		return fmt.Errorf("%s: %w: a restoration needs a new table; --resume completes an interrupted one",
			op, &store.ExistsError{Kind: "table", Name: r.Into})
	case r.Backup != "":
		_, err = conn.Call(ctx, t.conn, op, t.backups.RestoreTableFromBackup, &dynamodb.RestoreTableFromBackupInput{BackupArn: &r.Backup, TargetTableName: &r.Into})
	default:
		if err := t.checkInstant(ctx, op, r.To); err != nil {
			return err
		}
		_, err = conn.Call(ctx, t.conn, op, t.backups.RestoreTableToPointInTime, &dynamodb.RestoreTableToPointInTimeInput{SourceTableName: &t.o.Table, TargetTableName: &r.Into, RestoreDateTime: &r.To})
	}
	if taken := (*types.TableAlreadyExistsException)(nil); errors.As(err, &taken) {
		return fmt.Errorf("%s: %w", op, &store.ExistsError{Kind: "table", Name: r.Into})
	}
	return backupError(op, err)
}

// checkResumed accepts only a table that was restored from this one.
func (t *Table) checkResumed(op, name string, into *types.TableDescription) error {
	if into == nil {
		return fmt.Errorf("%s: %w", op, &store.NotFoundError{Kind: "restored table", Name: name, Hint: "restore it without --resume"})
	}
	if s := into.RestoreSummary; s == nil || !isTable(aws.ToString(s.SourceTableArn), t.o.Table) {
		return &store.ValidationError{Field: "new table", Value: name, Reason: "it was not restored from table " + t.o.Table + ", so it is left alone"}
	}
	return nil
}

// isTable reports whether an ARN is that of a table of a name.
func isTable(arn, name string) bool {
	const kind = ":table/"
	at := len(arn) - len(name)
	return at >= len(kind) && arn[at:] == name && arn[at-len(kind):at] == kind
}

// checkInstant checks that the table can be restored to an instant.
func (t *Table) checkInstant(ctx context.Context, op string, to time.Time) error {
	r, err := t.recovery(ctx, op)
	switch {
	case err != nil:
		return err
	case r.Status != string(types.PointInTimeRecoveryStatusEnabled):
		return &store.ValidationError{Field: "time", Value: schema.Timestamp(to), Reason: "point-in-time recovery of table " + t.o.Table + " is " + r.Status + "; restore a backup"}
	case !r.Earliest.IsZero() && to.Before(r.Earliest) || !r.Latest.IsZero() && to.After(r.Latest):
		return &store.ValidationError{Field: "time", Value: schema.Timestamp(to), Reason: "give one from " + schema.Timestamp(r.Earliest) + " to " + schema.Timestamp(r.Latest)}
	}
	return nil
}

// awaitActive waits until the table and its indexes are ready. A table that was just
// asked for may not be there yet.
func (t *Table) awaitActive(ctx context.Context, op string) error {
	return t.await(ctx, op, "table "+t.o.Table+" to be ACTIVE", func(ctx context.Context) (bool, error) {
		d, there, err := t.exists(ctx, op, t.o.Table)
		if !there || err != nil || d.TableStatus != types.TableStatusActive {
			return false, err
		}
		for i := range d.GlobalSecondaryIndexes {
			if d.GlobalSecondaryIndexes[i].IndexStatus != types.IndexStatusActive {
				return false, nil
			}
		}
		return true, nil
	})
}
