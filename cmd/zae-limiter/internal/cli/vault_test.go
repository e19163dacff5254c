package cli_test

import (
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A vault keeps backups of an engine's tables. Every table can be restored to an earlier
// time, except for restored ones at first: a restoration loses the settings of its table. A
// restoration to a time makes the table as it is now.
type vault struct {
	engine  *dynamolite.DB
	now     func() time.Time
	backups []*types.BackupDetails
	items   map[string][]map[string]types.AttributeValue // by the ARN of the backup
	bare    map[string]bool                              // restored tables without recovery
}

var _ admin.BackupAPI = (*vault)(nil)

func newVault(engine *dynamolite.DB, now func() time.Time) *vault {
	return &vault{engine: engine, now: now, items: map[string][]map[string]types.AttributeValue{}, bare: map[string]bool{}}
}

func (v *vault) CreateBackup(ctx context.Context, in *dynamodb.CreateBackupInput, _ ...func(*dynamodb.Options)) (*dynamodb.CreateBackupOutput, error) {
	out, err := v.engine.Scan(ctx, &dynamodb.ScanInput{TableName: in.TableName})
	if err != nil {
		return nil, err
	}
	arn := "arn:aws:dynamodb:eu-west-1:123456789012:table/" + *in.TableName + "/backup/" + strconv.Itoa(len(v.backups))
	b := &types.BackupDetails{
		BackupArn: &arn, BackupName: in.BackupName, BackupStatus: types.BackupStatusAvailable, BackupCreationDateTime: aws.Time(v.now()),
		BackupSizeBytes: aws.Int64(int64(len(out.Items))), BackupType: types.BackupTypeUser,
	}
	v.backups, v.items[arn] = append(v.backups, b), out.Items
	return &dynamodb.CreateBackupOutput{BackupDetails: b}, nil
}

// find returns the place of a backup.
func (v *vault) find(arn *string) (int, error) {
	for i, b := range v.backups {
		if *b.BackupArn == *arn {
			return i, nil
		}
	}
	return 0, &types.BackupNotFoundException{}
}

func (v *vault) DescribeBackup(_ context.Context, in *dynamodb.DescribeBackupInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeBackupOutput, error) {
	i, err := v.find(in.BackupArn)
	if err != nil {
		return nil, err
	}
	return &dynamodb.DescribeBackupOutput{BackupDescription: &types.BackupDescription{BackupDetails: v.backups[i]}}, nil
}

func (v *vault) ListBackups(context.Context, *dynamodb.ListBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.ListBackupsOutput, error) {
	out := &dynamodb.ListBackupsOutput{}
	for _, b := range v.backups {
		out.BackupSummaries = append(out.BackupSummaries, types.BackupSummary{
			BackupArn: b.BackupArn, BackupName: b.BackupName, BackupStatus: b.BackupStatus, BackupCreationDateTime: b.BackupCreationDateTime, BackupSizeBytes: b.BackupSizeBytes,
		})
	}
	return out, nil
}

func (v *vault) DeleteBackup(_ context.Context, in *dynamodb.DeleteBackupInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteBackupOutput, error) {
	i, err := v.find(in.BackupArn)
	if err != nil {
		return nil, err
	}
	v.backups = append(v.backups[:i], v.backups[i+1:]...)
	return &dynamodb.DeleteBackupOutput{}, nil
}

func (v *vault) RestoreTableFromBackup(ctx context.Context, in *dynamodb.RestoreTableFromBackupInput, _ ...func(*dynamodb.Options)) (*dynamodb.RestoreTableFromBackupOutput, error) {
	return &dynamodb.RestoreTableFromBackupOutput{}, v.restore(ctx, *in.TargetTableName, v.items[*in.BackupArn])
}

func (v *vault) RestoreTableToPointInTime(ctx context.Context, in *dynamodb.RestoreTableToPointInTimeInput, _ ...func(*dynamodb.Options)) (*dynamodb.RestoreTableToPointInTimeOutput, error) {
	out, err := v.engine.Scan(ctx, &dynamodb.ScanInput{TableName: in.SourceTableName})
	if err != nil {
		return nil, err
	}
	return &dynamodb.RestoreTableToPointInTimeOutput{}, v.restore(ctx, *in.TargetTableName, out.Items)
}

// restore makes a table that has items and no settings.
func (v *vault) restore(ctx context.Context, into string, items []map[string]types.AttributeValue) error {
	v.bare[into] = true
	if err := dynamo.CreateTable(ctx, v.engine, dynamo.TableOptions{Name: into, KeepExpired: true, Now: v.now}); err != nil {
		return err
	}
	for _, item := range items {
		if _, err := v.engine.PutItem(ctx, &dynamodb.PutItemInput{TableName: &into, Item: item}); err != nil {
			return err
		}
	}
	return nil
}

func (v *vault) DescribeContinuousBackups(_ context.Context, in *dynamodb.DescribeContinuousBackupsInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeContinuousBackupsOutput, error) {
	d := &types.PointInTimeRecoveryDescription{PointInTimeRecoveryStatus: types.PointInTimeRecoveryStatusDisabled}
	if !v.bare[*in.TableName] {
		d = &types.PointInTimeRecoveryDescription{
			PointInTimeRecoveryStatus: types.PointInTimeRecoveryStatusEnabled, RecoveryPeriodInDays: aws.Int32(35),
			EarliestRestorableDateTime: aws.Time(v.now().Add(-time.Hour)), LatestRestorableDateTime: aws.Time(v.now()),
		}
	}
	return &dynamodb.DescribeContinuousBackupsOutput{ContinuousBackupsDescription: &types.ContinuousBackupsDescription{PointInTimeRecoveryDescription: d}}, nil
}

func (v *vault) UpdateContinuousBackups(_ context.Context, in *dynamodb.UpdateContinuousBackupsInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateContinuousBackupsOutput, error) {
	delete(v.bare, *in.TableName)
	return &dynamodb.UpdateContinuousBackupsOutput{}, nil
}
