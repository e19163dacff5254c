package dynamolite_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// Encryption, on-demand limits and warm throughput are stored with a table and described, after a
// restart and a checkpoint too, and UpdateTable changes them.
func TestSettingsAreDescribed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *dynamolite.DB {
		db, err := dynamolite.Open(dynamolite.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	in := mainInput()
	in.BillingMode = types.BillingModePayPerRequest
	in.SSESpecification = &types.SSESpecification{Enabled: ptr(true), SSEType: types.SSETypeKms}
	in.OnDemandThroughput = &types.OnDemandThroughput{MaxReadRequestUnits: ptr(int64(100))}
	in.WarmThroughput = &types.WarmThroughput{ReadUnitsPerSecond: ptr(int64(13_000)), WriteUnitsPerSecond: ptr(int64(5_000))}
	in.GlobalSecondaryIndexes[0].OnDemandThroughput = &types.OnDemandThroughput{MaxWriteRequestUnits: ptr(int64(7))}
	index := *in.GlobalSecondaryIndexes[0].IndexName
	if _, err := db.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	check := func(when, key string, maxRead, maxWrite, warmRead, indexWrite int64) {
		t.Helper()
		out, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: ptr(mainTable)})
		if err != nil {
			t.Fatal(err)
		}
		d := out.Table
		if key == "" && d.SSEDescription != nil || key != "" && (d.SSEDescription == nil || d.SSEDescription.Status != types.SSEStatusEnabled || *d.SSEDescription.KMSMasterKeyArn != key) {
			t.Errorf("%s: the encryption is %+v", when, d.SSEDescription)
		}
		if got := d.OnDemandThroughput; got == nil || *got.MaxReadRequestUnits != maxRead || *got.MaxWriteRequestUnits != maxWrite {
			t.Errorf("%s: the limits are %+v", when, got)
		}
		if got := d.WarmThroughput; got == nil || *got.ReadUnitsPerSecond != warmRead || *got.WriteUnitsPerSecond != 5_000 || got.Status != types.TableStatusActive {
			t.Errorf("%s: the warm throughput is %+v", when, got)
		}
		for _, g := range d.GlobalSecondaryIndexes {
			if *g.IndexName != index {
				continue
			}
			if got := g.OnDemandThroughput; got == nil || *got.MaxReadRequestUnits != -1 || *got.MaxWriteRequestUnits != indexWrite {
				t.Errorf("%s: the limits of the index are %+v", when, got)
			}
		}
	}
	const managed = "arn:aws:kms:dynamolite:000000000000:alias/aws/dynamodb"
	check("created", managed, 100, -1, 13_000, 7)
	closeDB(t, db)
	db = open()
	check("opened again", managed, 100, -1, 13_000, 7)
	update := func(in *dynamodb.UpdateTableInput) error {
		in.TableName = ptr(mainTable)
		_, err := db.UpdateTable(t.Context(), in)
		return err
	}
	for _, in := range []*dynamodb.UpdateTableInput{
		{SSESpecification: &types.SSESpecification{Enabled: ptr(true), KMSMasterKeyId: ptr("1234")}},
		{OnDemandThroughput: &types.OnDemandThroughput{MaxReadRequestUnits: ptr(int64(-1)), MaxWriteRequestUnits: ptr(int64(9))}},
		{WarmThroughput: &types.WarmThroughput{ReadUnitsPerSecond: ptr(int64(14_000))}},
		{GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Update: &types.UpdateGlobalSecondaryIndexAction{
			IndexName: &index, OnDemandThroughput: &types.OnDemandThroughput{MaxWriteRequestUnits: ptr(int64(8))},
		}}}},
	} {
		if err := update(in); err != nil {
			t.Fatal(err)
		}
	}
	wantInvalid(t, update(&dynamodb.UpdateTableInput{WarmThroughput: &types.WarmThroughput{ReadUnitsPerSecond: ptr(int64(13_999))}}), "decreased")
	check("changed", "arn:aws:kms:dynamolite:000000000000:key/1234", -1, 9, 14_000, 8)
	if err := db.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
	db = open()
	check("after a checkpoint", "arn:aws:kms:dynamolite:000000000000:key/1234", -1, 9, 14_000, 8)
	if err := update(&dynamodb.UpdateTableInput{SSESpecification: &types.SSESpecification{Enabled: ptr(false)}}); err != nil {
		t.Fatal(err)
	}
	check("not encrypted", "", -1, 9, 14_000, 8)
	closeDB(t, db)
}
