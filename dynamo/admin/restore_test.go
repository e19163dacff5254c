package admin_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// A vault is an engine with backups in memory. A restoration loses what it loses on AWS:
// the new table has no time to live, stream, recovery, tags or protection.
type vault struct {
	*hooked

	copies  map[string]*backedUp
	pitr    map[string]int32  // days, by table with point-in-time recovery
	sources map[string]string // ARN of the table that a table was restored from
	fails   map[string]error  // by operation
	polls   int
}

type backedUp struct {
	details types.BackupDetails
	table   string
	items   []schema.Item
}

var _ admin.BackupAPI = (*vault)(nil)

func newVault(t *testing.T, hook faults.Hook) *vault {
	t.Helper()
	api, _ := newHooked(t, hook)
	return &vault{hooked: api, copies: map[string]*backedUp{}, pitr: map[string]int32{}, sources: map[string]string{}, fails: map[string]error{}}
}

// DescribeTable adds what the engine does not know.
func (v *vault) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	out, err := v.hooked.DescribeTable(ctx, in, o...)
	if err == nil && v.sources[*in.TableName] != "" {
		out.Table.RestoreSummary = &types.RestoreSummary{SourceTableArn: aws.String(v.sources[*in.TableName])}
	}
	return out, err
}

func (v *vault) items(ctx context.Context, table string) ([]schema.Item, error) {
	out, err := v.db.Scan(ctx, &dynamodb.ScanInput{TableName: &table})
	if err != nil {
		return nil, err
	}
	return out.Items, nil
}

func (v *vault) CreateBackup(ctx context.Context, in *dynamodb.CreateBackupInput, _ ...func(*dynamodb.Options)) (*dynamodb.CreateBackupOutput, error) {
	items, err := v.items(ctx, *in.TableName)
	if err != nil {
		return nil, err
	}
	n := len(v.copies)
	b := &backedUp{types.BackupDetails{
		BackupArn: aws.String("arn:backup/" + strconv.Itoa(n)), BackupName: in.BackupName, BackupStatus: types.BackupStatusCreating,
		BackupCreationDateTime: aws.Time(fixture.Start.Add(time.Duration(n) * time.Hour)), BackupSizeBytes: aws.Int64(int64(len(items))),
	}, *in.TableName, items}
	v.copies[*b.details.BackupArn] = b
	creating := b.details
	return &dynamodb.CreateBackupOutput{BackupDetails: &creating}, nil
}

// DescribeBackup shows a new backup as available at the second look.
func (v *vault) DescribeBackup(_ context.Context, in *dynamodb.DescribeBackupInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeBackupOutput, error) {
	b := v.copies[*in.BackupArn]
	if b == nil {
		return nil, &types.BackupNotFoundException{}
	}
	if v.polls++; v.polls > 1 {
		b.details.BackupStatus = types.BackupStatusAvailable
	}
	details := b.details
	return &dynamodb.DescribeBackupOutput{BackupDescription: &types.BackupDescription{
		BackupDetails: &details, SourceTableDetails: &types.SourceTableDetails{TableName: &b.table},
		SourceTableFeatureDetails: &types.SourceTableFeatureDetails{StreamDescription: &types.StreamSpecification{
			StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages,
		}},
	}}, nil
}

// ListBackups lists one backup a page, the oldest first.
func (v *vault) ListBackups(_ context.Context, in *dynamodb.ListBackupsInput, _ ...func(*dynamodb.Options)) (*dynamodb.ListBackupsOutput, error) {
	var arns []string
	for arn, b := range v.copies {
		if b.table == *in.TableName && arn > aws.ToString(in.ExclusiveStartBackupArn) {
			arns = append(arns, arn)
		}
	}
	slices.Sort(arns)
	out := &dynamodb.ListBackupsOutput{}
	if len(arns) == 0 {
		return out, nil
	}
	if len(arns) > 1 {
		out.LastEvaluatedBackupArn = &arns[0]
	}
	d := v.copies[arns[0]].details
	out.BackupSummaries = []types.BackupSummary{{
		BackupArn: d.BackupArn, BackupName: d.BackupName, BackupStatus: d.BackupStatus, BackupCreationDateTime: d.BackupCreationDateTime, BackupSizeBytes: d.BackupSizeBytes,
	}}
	return out, nil
}

func (v *vault) DeleteBackup(_ context.Context, in *dynamodb.DeleteBackupInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteBackupOutput, error) {
	delete(v.copies, *in.BackupArn)
	return &dynamodb.DeleteBackupOutput{}, nil
}

func (v *vault) RestoreTableFromBackup(ctx context.Context, in *dynamodb.RestoreTableFromBackupInput, _ ...func(*dynamodb.Options)) (*dynamodb.RestoreTableFromBackupOutput, error) {
	b := v.copies[*in.BackupArn]
	return &dynamodb.RestoreTableFromBackupOutput{}, v.restore(ctx, b.table, *in.TargetTableName, b.items)
}

func (v *vault) RestoreTableToPointInTime(ctx context.Context, in *dynamodb.RestoreTableToPointInTimeInput, _ ...func(*dynamodb.Options)) (*dynamodb.RestoreTableToPointInTimeOutput, error) {
	items, err := v.items(ctx, *in.SourceTableName)
	if err != nil {
		return nil, err
	}
	return &dynamodb.RestoreTableToPointInTimeOutput{}, v.restore(ctx, *in.SourceTableName, *in.TargetTableName, items)
}

func (v *vault) restore(ctx context.Context, from, into string, items []schema.Item) error {
	if err := dynamo.CreateTable(ctx, v.db, dynamo.TableOptions{Name: into, KeepExpired: true, Now: fixture.Now}); err != nil {
		return err
	}
	v.sources[into] = "arn:aws:dynamodb:us-east-1:1:table/" + from
	for _, it := range items {
		if _, err := v.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &into, Item: it}); err != nil {
			return err
		}
	}
	return nil
}

func (v *vault) DescribeContinuousBackups(_ context.Context, in *dynamodb.DescribeContinuousBackupsInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeContinuousBackupsOutput, error) {
	d := &types.PointInTimeRecoveryDescription{PointInTimeRecoveryStatus: types.PointInTimeRecoveryStatusDisabled}
	if days, on := v.pitr[*in.TableName]; on {
		d = &types.PointInTimeRecoveryDescription{
			PointInTimeRecoveryStatus: types.PointInTimeRecoveryStatusEnabled, RecoveryPeriodInDays: &days,
			EarliestRestorableDateTime: aws.Time(fixture.Start.Add(-time.Hour)), LatestRestorableDateTime: aws.Time(fixture.Start),
		}
	}
	return &dynamodb.DescribeContinuousBackupsOutput{ContinuousBackupsDescription: &types.ContinuousBackupsDescription{PointInTimeRecoveryDescription: d}}, nil
}

// UpdateContinuousBackups is refused once, as for a table that has just become active.
func (v *vault) UpdateContinuousBackups(_ context.Context, in *dynamodb.UpdateContinuousBackupsInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateContinuousBackupsOutput, error) {
	if err := v.fails["UpdateContinuousBackups"]; err != nil {
		delete(v.fails, "UpdateContinuousBackups")
		return nil, err
	}
	v.pitr[*in.TableName] = aws.ToInt32(in.PointInTimeRecoverySpecification.RecoveryPeriodInDays)
	return &dynamodb.UpdateContinuousBackupsOutput{}, nil
}

// furnish gives the table settings that a restoration loses.
func (v *vault) furnish(t *testing.T) {
	t.Helper()
	v.pitr[table] = 7
	v.fails["UpdateContinuousBackups"] = &types.ContinuousBackupsUnavailableException{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := newTable(t, v).Describe(t.Context())
	must(err)
	_, err = v.TagResource(t.Context(), &dynamodb.TagResourceInput{ResourceArn: &d.ARN, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}})
	must(err)
	_, err = v.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: aws.String(table), DeletionProtectionEnabled: aws.Bool(true)})
	must(err)
}

func TestARestorationGivesBackWhatItLoses(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]func(*admin.Table) admin.Restore{
		"a backup": func(a *admin.Table) admin.Restore {
			b, err := a.CreateBackup(t.Context(), "nightly")
			if err != nil || b.Status != "AVAILABLE" {
				t.Errorf("made %+v, %v", b, err)
			}
			return admin.Restore{Into: "restored", Backup: b.ARN}
		},
		"a time": func(*admin.Table) admin.Restore { return admin.Restore{Into: "restored", To: fixture.Start} },
	} {
		v := newVault(t, faults.Chain())
		v.furnish(t)
		a := newTable(t, v)
		done, err := a.Restore(t.Context(), r(a))
		want := admin.Restored{Table: "restored", Enabled: []string{"TTL", "PITR", "tags", "stream", "deletion protection"}}
		if diff := cmp.Diff(want, done); err != nil || diff != "" {
			t.Errorf("%s: %v, (-want +got):\n%s", name, err, diff)
		}
		v.wantSame(t)
	}
}

// wantSame compares the settings of the restored table.
func (v *vault) wantSame(t *testing.T) {
	t.Helper()
	into, err := admin.New(admin.Options{API: v, Table: "restored", Now: fixture.Now, Poll: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	d, err := into.Describe(t.Context())
	if err != nil || d.Expiry != "ENABLED" || d.StreamView != "NEW_AND_OLD_IMAGES" || d.Recovery.Days != 7 || d.Tags["team"] != "a" || !d.DeletionProtection {
		t.Errorf("restored as %+v, %v", d, err)
	}
}

func TestARestorationThatWasInterruptedIsResumed(t *testing.T) {
	t.Parallel()
	v := newVault(t, faults.Chain())
	v.furnish(t)
	a := newTable(t, v)
	killed := errors.New("killed")
	v.fails["UpdateContinuousBackups"] = killed
	r := admin.Restore{Into: "restored", To: fixture.Start}
	_, err := a.Restore(t.Context(), r)
	fixture.WantErr(t, err, killed)
	_, err = a.Restore(t.Context(), r)
	fixture.WantErr(t, err, store.ErrExists)
	done, err := a.Restore(t.Context(), admin.Restore{Into: "restored", Resume: true})
	if want := []string{"PITR", "tags", "stream", "deletion protection"}; err != nil || !slices.Equal(done.Enabled, want) {
		t.Errorf("resumed: %+v, %v, want %q", done, err, want)
	}
	v.wantSame(t)
	// The new stream runs: a third call changes nothing.
	done, err = a.Restore(t.Context(), admin.Restore{Into: "restored", Resume: true})
	if err != nil || len(done.Enabled) > 0 {
		t.Errorf("resumed again: %+v, %v", done, err)
	}
}

func TestARestorationNeverTouchesALiveTable(t *testing.T) {
	t.Parallel()
	v := newVault(t, faults.Chain())
	a := newTable(t, v)
	if err := dynamo.CreateTable(t.Context(), v.db, dynamo.TableOptions{Name: "live", KeepExpired: true}); err != nil {
		t.Fatal(err)
	}
	v.pitr[table] = 7
	for _, c := range []struct {
		r    admin.Restore
		want error
	}{
		{admin.Restore{Into: table, To: fixture.Start}, store.ErrInvalid},
		{admin.Restore{To: fixture.Start}, store.ErrInvalid},
		{admin.Restore{Into: "new"}, store.ErrInvalid},
		{admin.Restore{Into: "new", To: fixture.Start, Backup: "arn"}, store.ErrInvalid},
		{admin.Restore{Into: "new", To: fixture.Start.Add(time.Hour)}, store.ErrInvalid},
		{admin.Restore{Into: "new", Backup: "arn:backup/9"}, store.ErrNotFound},
		{admin.Restore{Into: "live", To: fixture.Start}, store.ErrExists},
		{admin.Restore{Into: "live", Resume: true}, store.ErrInvalid},
		{admin.Restore{Into: "new", Resume: true}, store.ErrNotFound},
	} {
		_, err := a.Restore(t.Context(), c.r)
		if !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.r, err, c.want)
		}
	}
	delete(v.pitr, table)
	_, err := a.Restore(t.Context(), admin.Restore{Into: "new", To: fixture.Start})
	fixture.WantErr(t, err, store.ErrInvalid)
	if out, err := v.db.ListTables(t.Context(), &dynamodb.ListTablesInput{}); err != nil || len(out.TableNames) != 2 {
		t.Errorf("tables %v, %v", out.TableNames, err)
	}
	live, err := admin.New(admin.Options{API: v, Table: "live"})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := live.Describe(t.Context()); err != nil || d.Expiry != "DISABLED" {
		t.Errorf("the live table: %+v, %v", d, err)
	}
}

// The table is gone, but its backup is not.
func TestADeletedTableIsRestored(t *testing.T) {
	t.Parallel()
	v := newVault(t, faults.Chain())
	a := newTable(t, v)
	b, err := a.CreateBackup(t.Context(), "nightly")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	done, err := a.Restore(t.Context(), admin.Restore{Into: "restored", Backup: b.ARN})
	if want := []string{"TTL", "PITR", "stream"}; err != nil || !slices.Equal(done.Enabled, want) {
		t.Errorf("restored %+v, %v, want %q", done, err, want)
	}
}

func TestBackupsAreListedAndDeleted(t *testing.T) {
	t.Parallel()
	v := newVault(t, faults.Chain())
	a := newTable(t, v)
	for _, name := range []string{"first", "second", "third"} {
		if _, err := a.CreateBackup(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	v.copies["arn:backup/other"] = &backedUp{table: "other", details: types.BackupDetails{BackupArn: aws.String("arn:backup/other")}}
	all, err := a.Backups(t.Context())
	if err != nil || len(all) != 3 || all[0].Name != "third" || all[2].Name != "first" {
		t.Errorf("listed %+v, %v", all, err)
	}
	fixture.WantErr(t, a.DeleteBackup(t.Context(), "arn:backup/other"), store.ErrInvalid)
	if err := a.DeleteBackup(t.Context(), all[0].ARN); err != nil {
		t.Error(err)
	}
	fixture.WantErr(t, a.DeleteBackup(t.Context(), all[0].ARN), store.ErrNotFound)
	if _, err := a.CreateBackup(t.Context(), "a b"); !errors.Is(err, store.ErrInvalid) {
		t.Error(err)
	}
}
