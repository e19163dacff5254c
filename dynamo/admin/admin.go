// Package admin administers the table itself. It describes a table, deletes it, enables
// its stream, backs it up, restores it, and checks whether this client works with it:
// begin with [New]. It registers, lists, deletes, recovers and purges the namespaces of a
// table: begin with [NewNamespaces].
//
// A table that a CloudFormation stack owns is described and backed up like any other. It
// is never deleted here, because its stack would not know of it.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
)

// An API is the part of DynamoDB that this package needs besides [dynamo.API], with the
// SDK's own signatures. *[dynamodb.Client] implements it, and so does the embedded engine.
type API interface {
	dynamo.API
	UpdateTable(context.Context, *dynamodb.UpdateTableInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error)
	DeleteTable(context.Context, *dynamodb.DeleteTableInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteTableOutput, error)
	ListTagsOfResource(context.Context, *dynamodb.ListTagsOfResourceInput, ...func(*dynamodb.Options)) (*dynamodb.ListTagsOfResourceOutput, error)
	TagResource(context.Context, *dynamodb.TagResourceInput, ...func(*dynamodb.Options)) (*dynamodb.TagResourceOutput, error)
}

// A BackupAPI is the part of DynamoDB that backs up and restores. *[dynamodb.Client]
// implements it. The embedded engine and DynamoDB Local have no backups.
type BackupAPI interface {
	CreateBackup(context.Context, *dynamodb.CreateBackupInput, ...func(*dynamodb.Options)) (*dynamodb.CreateBackupOutput, error)
	DescribeBackup(context.Context, *dynamodb.DescribeBackupInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeBackupOutput, error)
	ListBackups(context.Context, *dynamodb.ListBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.ListBackupsOutput, error)
	DeleteBackup(context.Context, *dynamodb.DeleteBackupInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteBackupOutput, error)
	RestoreTableFromBackup(context.Context, *dynamodb.RestoreTableFromBackupInput, ...func(*dynamodb.Options)) (*dynamodb.RestoreTableFromBackupOutput, error)
	RestoreTableToPointInTime(context.Context, *dynamodb.RestoreTableToPointInTimeInput, ...func(*dynamodb.Options)) (*dynamodb.RestoreTableToPointInTimeOutput, error)
	DescribeContinuousBackups(context.Context, *dynamodb.DescribeContinuousBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeContinuousBackupsOutput, error)
	UpdateContinuousBackups(context.Context, *dynamodb.UpdateContinuousBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateContinuousBackupsOutput, error)
}

var (
	_ API       = (*dynamodb.Client)(nil)
	_ BackupAPI = (*dynamodb.Client)(nil)
)

var (
	// ErrProtected says that a table must not be deleted: a CloudFormation stack owns it,
	// or its deletion protection is on.
	ErrProtected = errors.New("table is protected")
	// ErrNoBackups says that the server has no backups, as DynamoDB Local and the embedded
	// engine.
	ErrNoBackups = errors.New("no backups on this server: stop zae-limiter local and copy its directory instead")
	// ErrNamespaceInUse says that a namespace cannot be purged, because its name leads to it
	// or limiters write to it. It also says that a namespace cannot be recovered, because a
	// purge has begun.
	ErrNamespaceInUse = errors.New("namespace in use")
)

// Options say which table to administer. API and Table are required.
type Options struct {
	API   API
	Table string
	// Streams serves the table's stream, for the trials of [Table.Check]. With nil, it tries
	// nothing of the stream.
	Streams stream.API
	// Now is the local clock; nil is time.Now.
	Now func() time.Time
	// Logger receives what cannot be returned; nil discards it.
	Logger *slog.Logger
	// Poll is the pause between two looks at a table or backup that changes; 0 is
	// [DefaultPoll].
	Poll time.Duration
	// Progress is called while a change takes time; nil calls nothing.
	Progress func(Progress)
}

// Defaults of [Options.Poll] and [PurgeOptions.Quiet].
const (
	DefaultPoll       = 2 * time.Second
	DefaultPurgeQuiet = time.Hour
)

// Progress says what a call waits for, and for how long it has waited.
type Progress struct {
	// Waiting names what is waited for: "table limits to be ACTIVE" for instance.
	Waiting string
	For     time.Duration
}

// A Table is a handle of one table. It is safe for concurrent use.
type Table struct {
	conn    *conn.Conn
	api     API
	backups BackupAPI // nil if the API has none
	o       Options
}

// New returns a handle. It sends no request. The handle backs up and restores if the API
// is a [BackupAPI], too.
func New(o Options) (*Table, error) {
	c := conn.Options{Table: o.Table, Now: o.Now, Logger: o.Logger}
	if o.API != nil {
		c.API = o.API
	}
	conn, err := conn.New(c)
	if err != nil {
		return nil, err
	}
	if o.Poll == 0 {
		o.Poll = DefaultPoll
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	t := &Table{conn: conn, api: o.API, o: o}
	t.backups, _ = o.API.(BackupAPI)
	return t, nil
}

// await looks at something until it is ready, and tells what it waits for. It returns the
// first error of the look.
func (t *Table) await(ctx context.Context, op, what string, look func(context.Context) (ready bool, err error)) error {
	begun := t.conn.Clock.Now()
	for {
		ready, err := look(ctx)
		if ready || err != nil {
			return err
		}
		t.o.Progress(Progress{Waiting: what, For: t.conn.Clock.Now().Sub(begun)})
		if err := conn.Sleep(ctx, t.o.Poll); err != nil {
			return t.conn.Translate(op, fmt.Errorf("waiting for %s, which continues: %w", what, err))
		}
	}
}

// isUnknownOperation reports whether the server does not have an operation.
func isUnknownOperation(err error) bool {
	api := smithy.APIError(nil)
	return errors.As(err, &api) && api.ErrorCode() == "UnknownOperationException"
}
