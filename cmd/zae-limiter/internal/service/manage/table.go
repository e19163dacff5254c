package manage

import (
	"context"
	"strings"
	"time"
	"unicode"

	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/store"
)

// A TableView is a table in JSON.
type TableView struct {
	Name     string      `json:"table_name"`
	ARN      string      `json:"table_arn"`
	Status   string      `json:"status"`
	Created  time.Time   `json:"created_at"`
	Key      []string    `json:"key"`     // attributes of the primary key
	Indexes  []IndexView `json:"indexes"` // the global secondary indexes
	Items    int64       `json:"items"`
	Bytes    int64       `json:"bytes"`
	Billing  string      `json:"billing"` // PAY_PER_REQUEST or PROVISIONED
	Read     int64       `json:"read_units,omitempty"`
	Write    int64       `json:"write_units,omitempty"`
	TTL      string      `json:"ttl"`                     // status of expiry
	TTLBy    string      `json:"ttl_attribute,omitempty"` // attribute with the time of expiry
	Stream   string      `json:"stream_view,omitempty"`   // what stream records show
	ARNOf    string      `json:"stream_arn,omitempty"`
	PITR     string      `json:"pitr"`                       // status of point-in-time recovery
	PITRDays int32       `json:"pitr_days,omitempty"`        // days that the table can be restored to
	Earliest *time.Time  `json:"pitr_earliest_at,omitempty"` // earliest instant to restore
	Latest   *time.Time  `json:"pitr_latest_at,omitempty"`   // latest instant to restore
	Protect  bool        `json:"deletion_protection"`        // the table refuses to be deleted
	Stack    string      `json:"stack_name,omitempty"`

	Versions *VersionsView     `json:"versions,omitempty"`
	Unknown  map[string]string `json:"unknown,omitempty"` // what could not be read: the reason by operation
	Misfit   string            `json:"misfit,omitempty"`  // why the table does not fit this program
}

// An IndexView is an index of a table in JSON.
type IndexView struct {
	Name       string   `json:"index_name"`
	Status     string   `json:"status"`
	Key        []string `json:"key"`        // attributes of the key
	Projection string   `json:"projection"` // attributes that the index has
	Items      int64    `json:"items"`
	Bytes      int64    `json:"bytes"`
}

// A VersionsView is a table's version record in JSON.
type VersionsView struct {
	Schema    string `json:"schema_version"`
	ClientMin string `json:"client_min_version"`
	Lambda    string `json:"lambda_version,omitempty"`
}

// TableViewOf returns the view of a description.
func TableViewOf(d *admin.Description) *TableView {
	v := &TableView{
		Name: d.Name, ARN: d.ARN, Status: d.Status, Created: d.Created.UTC(), Key: d.Key, Items: d.Items, Bytes: d.Bytes,
		Billing: d.Billing, Read: d.Read, Write: d.Write, TTL: d.Expiry, TTLBy: d.ExpiryBy,
		Stream: d.StreamView, ARNOf: d.StreamARN, PITR: d.Recovery.Status, PITRDays: d.Recovery.Days,
		Earliest: known(d.Recovery.Earliest), Latest: known(d.Recovery.Latest),
		Protect: d.DeletionProtection, Stack: d.Stack, Misfit: d.Misfit,
	}
	for _, ix := range d.Indexes {
		v.Indexes = append(v.Indexes, IndexView(ix))
	}
	if d.Version != nil {
		v.Versions = (*VersionsView)(d.Version)
	}
	for operation, err := range d.Unknown {
		if v.Unknown == nil {
			v.Unknown = map[string]string{}
		}
		v.Unknown[operation] = err.Error()
	}
	return v
}

// known is nil for the zero time.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// ShowTable describes a table.
func ShowTable(ctx context.Context, t *admin.Table) (*TableView, error) {
	d, err := t.Describe(ctx)
	if err != nil {
		return nil, err
	}
	return TableViewOf(d), nil
}

// An EnabledStream is the stream of a table in JSON.
type EnabledStream struct {
	Stream  string `json:"stream_arn"`
	Enabled bool   `json:"enabled"` // false if the table had the stream already
}

// EnableStream gives a table its stream.
func EnableStream(ctx context.Context, t *admin.Table) (EnabledStream, error) {
	arn, enabled, err := t.EnableStream(ctx)
	return EnabledStream{arn, enabled}, err
}

// A Backup is a backup of a table in JSON.
type Backup struct {
	ARN     string     `json:"backup_arn"`
	Name    string     `json:"backup_name"`
	Status  string     `json:"status"`
	Created time.Time  `json:"created_at"`
	Expires *time.Time `json:"expires_at,omitempty"`
	Bytes   int64      `json:"bytes"`
}

func backupOf(b *admin.Backup) Backup {
	return Backup{ARN: b.ARN, Name: b.Name, Status: b.Status, Created: b.Created.UTC(), Expires: known(b.Expires), Bytes: b.Bytes}
}

// Backups are those of a table in JSON.
type Backups struct {
	Backups []Backup `json:"backups"`        // the backups, the newest first
	Note    string   `json:"note,omitempty"` // why there are none
}

// CreateBackup makes a backup of a table, and waits until it is available.
func CreateBackup(ctx context.Context, t *admin.Table, name string) (Backup, error) {
	if err := admin.CheckBackupName(name); err != nil {
		return Backup{}, err
	}
	b, err := t.CreateBackup(ctx, name)
	return backupOf(&b), err
}

// ListBackups lists the backups of a table that has a name.
func ListBackups(ctx context.Context, t *admin.Table, name string) (Backups, error) {
	all, err := t.Backups(ctx)
	if err != nil {
		return Backups{}, err
	}
	v := Backups{Backups: make([]Backup, len(all))}
	for i := range all {
		v.Backups[i] = backupOf(&all[i])
	}
	if len(all) == 0 {
		v.Note = "table " + name + " has no on-demand backup: make one with zae-limiter backup create"
	}
	return v, nil
}

// A DeletedBackup is the result of a deletion in JSON.
type DeletedBackup struct {
	ARN string `json:"backup_arn"`
}

// DeleteBackup deletes a backup.
func DeleteBackup(ctx context.Context, t *admin.Table, arn string) (DeletedBackup, error) {
	if err := CheckBackupARN(arn); err != nil {
		return DeletedBackup{}, err
	}
	return DeletedBackup{arn}, t.DeleteBackup(ctx, arn)
}

// CheckBackupARN checks the ARN of a backup. AWS would answer a wrong one with an error of its own.
func CheckBackupARN(arn string) error {
	if !strings.HasPrefix(arn, "arn:") || strings.ContainsFunc(arn, unicode.IsSpace) {
		return &store.ValidationError{Field: "backup ARN", Value: arn, Reason: "give the ARN of a backup, as zae-limiter backup list shows it"}
	}
	return nil
}
