package admin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// settings are those of a table that a restoration loses.
type settings struct {
	expiry     string // the attribute by which items expire, "" if they do not
	view       types.StreamViewType
	days       int32 // of point-in-time recovery; 0 is DynamoDB's default
	recoverTo  bool
	protection bool
	tags       map[string]string
}

// settings reads those of the table or, if it is gone, of a backup.
func (t *Table) settings(ctx context.Context, op, backup string) (*settings, error) {
	d, err := t.Describe(ctx)
	if errors.Is(err, store.ErrNotFound) && backup != "" {
		return t.recorded(ctx, op, backup)
	}
	if err != nil {
		return nil, err
	}
	for _, operation := range slices.Sorted(maps.Keys(d.Unknown)) {
		return nil, d.Unknown[operation] // a setting that cannot be read would be lost
	}
	if backup != "" {
		if _, err := t.describeBackup(ctx, op, backup); err != nil {
			return nil, err
		}
	}
	s := &settings{
		view: types.StreamViewType(d.StreamView), days: d.Recovery.Days, protection: d.DeletionProtection, tags: d.Tags,
		recoverTo: d.Recovery.Status == string(types.PointInTimeRecoveryStatusEnabled),
	}
	if strings.HasPrefix(d.Expiry, "ENABL") {
		s.expiry = d.ExpiryBy
	}
	return s, nil
}

// recorded are the settings that a backup recorded.
func (t *Table) recorded(ctx context.Context, op, backup string) (*settings, error) {
	d, err := t.describeBackup(ctx, op, backup)
	if err != nil {
		return nil, err
	}
	s := &settings{expiry: schema.TTL, recoverTo: true}
	if f := d.SourceTableFeatureDetails; f != nil && f.StreamDescription != nil && aws.ToBool(f.StreamDescription.StreamEnabled) {
		s.view = f.StreamDescription.StreamViewType
	}
	return s, nil
}

// apply gives the table settings. It leaves alone what the table has already, so that it
// can be repeated.
func (t *Table) apply(ctx context.Context, op string, s *settings, now *Description, done *Restored) error {
	for _, step := range []struct {
		name   string
		wanted bool
		do     func() error
	}{
		{"TTL", s.expiry != "" && !strings.HasPrefix(now.Expiry, "ENABL"), func() error { return t.applyExpiry(ctx, op, s.expiry) }},
		{"PITR", s.recoverTo && now.Recovery.Status != string(types.PointInTimeRecoveryStatusEnabled), func() error { return t.applyRecovery(ctx, op, s.days) }},
		{"tags", len(s.tags) > 0 && !maps.Equal(now.Tags, s.tags), func() error { return t.applyTags(ctx, op, now.ARN, s.tags) }},
		{"stream", s.view != "" && now.StreamView == "", func() error {
			return t.update(ctx, op, &dynamodb.UpdateTableInput{StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: s.view}})
		}},
		{"deletion protection", s.protection && !now.DeletionProtection, func() error {
			return t.update(ctx, op, &dynamodb.UpdateTableInput{DeletionProtectionEnabled: aws.Bool(true)})
		}},
	} {
		if !step.wanted {
			continue
		}
		if err := step.do(); err != nil {
			return err
		}
		done.Enabled = append(done.Enabled, step.name)
	}
	return nil
}

func (t *Table) applyExpiry(ctx context.Context, op, attribute string) error {
	_, err := conn.Call(ctx, t.conn, op, t.api.UpdateTimeToLive, &dynamodb.UpdateTimeToLiveInput{
		TableName: &t.o.Table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &attribute, Enabled: aws.Bool(true)},
	})
	return err
}

// applyRecovery enables point-in-time recovery. A new table has no backups for a moment.
func (t *Table) applyRecovery(ctx context.Context, op string, days int32) error {
	in := &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}
	if days > 0 {
		in.RecoveryPeriodInDays = &days
	}
	return t.await(ctx, op, "backups of "+t.o.Table+" to be enabled", func(ctx context.Context) (bool, error) {
		_, err := conn.Call(ctx, t.conn, op, t.backups.UpdateContinuousBackups, &dynamodb.UpdateContinuousBackupsInput{TableName: &t.o.Table, PointInTimeRecoverySpecification: in})
		if early := (*types.ContinuousBackupsUnavailableException)(nil); errors.As(err, &early) {
			return false, nil
		}
		return err == nil, err
	})
}

func (t *Table) applyTags(ctx context.Context, op, arn string, tags map[string]string) error {
	in := &dynamodb.TagResourceInput{ResourceArn: &arn}
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		in.Tags = append(in.Tags, types.Tag{Key: aws.String(name), Value: aws.String(tags[name])})
	}
	_, err := conn.Call(ctx, t.conn, op, t.api.TagResource, in)
	return err
}

// update changes the table and waits until that is done: DynamoDB makes one change at a
// time.
func (t *Table) update(ctx context.Context, op string, in *dynamodb.UpdateTableInput) error {
	in.TableName = &t.o.Table
	_, err := conn.Call(ctx, t.conn, op, t.api.UpdateTable, in)
	if err != nil {
		return err
	}
	return t.awaitActive(ctx, op)
}
