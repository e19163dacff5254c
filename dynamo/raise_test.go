package dynamo_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

func TestVersionsAreCheckedInThePeersOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v     dynamo.Version
		want  error
		older bool
	}{
		{dynamo.Version{Schema: "0.10.0", ClientMin: "0.17.0", Lambda: "0.17.0"}, nil, false},
		{dynamo.Version{Schema: "0.10.9", ClientMin: "v0.17", Lambda: "0.18.0"}, nil, false},
		{dynamo.Version{Schema: "0.10.0", Lambda: "0.16.2"}, nil, true},
		{dynamo.Version{Schema: "0.10.0", Lambda: "0.17.0.dev3"}, nil, true},
		{dynamo.Version{Schema: "0.10.0", Lambda: "unknown"}, nil, true},
		{dynamo.Version{Schema: "0.9.0", ClientMin: "0.0.0"}, store.ErrIncompatible, false},
		{dynamo.Version{Schema: "0.11.0", ClientMin: "0.0.0"}, store.ErrIncompatible, false},
		{dynamo.Version{Schema: "1.10.0"}, store.ErrIncompatible, false},
		{dynamo.Version{}, nil, false},
	} {
		if err := c.v.Check(); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.v, err, c.want)
		}
		if c.v.LambdaIsOlder() != c.older {
			t.Errorf("%+v: older is %v", c.v, !c.older)
		}
	}
}

func TestRaisedVersionsAreNeverLowered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stored dynamo.Version
		to     dynamo.Versions
		want   dynamo.Version
	}{
		{dynamo.Version{"0.10.0", "0.15.0", "0.16.0"}, dynamo.Versions{Lambda: "0.17.0", ClientMin: "0.16.0"}, dynamo.Version{"0.10.0", "0.16.0", "0.17.0"}},
		{dynamo.Version{"0.10.0", "0.17.0", "0.18.0"}, dynamo.Versions{Lambda: "0.17.0", ClientMin: "0.16.0"}, dynamo.Version{"0.10.0", "0.17.0", "0.18.0"}},
		{dynamo.Version{"0.10.0", "0.0.0", "0.17.0"}, dynamo.Versions{Lambda: "0.17.0rc1"}, dynamo.Version{"0.10.0", "0.0.0", "0.17.0"}},
		{dynamo.Version{"0.10.0", "0.0.0", ""}, dynamo.Versions{Lambda: "0.1.0"}, dynamo.Version{"0.10.0", "0.0.0", "0.1.0"}},
		{dynamo.Version{"0.10.0", "0.0.0", "unknown"}, dynamo.Versions{Lambda: "0.1.0"}, dynamo.Version{"0.10.0", "0.0.0", "0.1.0"}},
	} {
		db := fixture.NewTable(t)
		record := schema.EncodeVersion(schema.Version{Schema: c.stored.Schema, ClientMin: c.stored.ClientMin, Lambda: c.stored.Lambda, Updated: start})
		record["template_version"] = schema.S("9")
		fixture.Put(t, db, record)
		o := dynamo.Options{API: db, Table: table, Now: now}
		got, err := dynamo.RaiseVersions(t.Context(), o, c.to)
		if err != nil || got != c.want {
			t.Errorf("%+v to %+v: %+v, %v", c.stored, c.to, got, err)
		}
		read, ok, err := dynamo.ReadVersion(t.Context(), o)
		if err != nil || !ok || read != c.want {
			t.Errorf("%+v to %+v: the record has %+v, %v, %v", c.stored, c.to, read, ok, err)
		}
		if diff := cmp.Diff("S 9", fixture.Notation(fixture.Get(t, db, schema.VersionKey())["template_version"])); diff != "" {
			t.Errorf("an unknown attribute (-want +got):\n%s", diff)
		}
	}
}

func TestRaisingVersionsOfATableWithoutARecordCreatesIt(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	name := table
	if _, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &name, Key: schema.VersionKey().Item()}); err != nil {
		t.Fatal(err)
	}
	o := dynamo.Options{API: db, Table: table, Now: now}
	if v, ok, err := dynamo.ReadVersion(t.Context(), o); ok || err != nil {
		t.Errorf("without a record: %+v, %v", v, err)
	}
	got, err := dynamo.RaiseVersions(t.Context(), o, dynamo.Versions{Lambda: "0.17.0", By: "cli:1.2.3"})
	if want := (dynamo.Version{"0.10.0", "0.0.0", "0.17.0"}); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if by := schema.DecodeVersion(fixture.Get(t, db, schema.VersionKey())); by.UpdatedBy != "cli:1.2.3" || !by.Updated.Equal(start) {
		t.Errorf("the record is %+v", by)
	}
}

func TestCreateTableRecordsTheVersionOfItsAggregator(t *testing.T) {
	t.Parallel()
	o := dynamo.Options{API: fixture.NewTable(t), Table: table, Now: now}
	if v, ok, err := dynamo.ReadVersion(t.Context(), o); !ok || err != nil || v.Lambda != dynamo.ClientVersion {
		t.Errorf("got %+v, %v, %v", v, ok, err)
	}
}

// Each of two deployers reads before the other writes. The higher version stands,
// whichever of them writes last.
func TestOfTwoDeployersTheHigherVersionStands(t *testing.T) {
	t.Parallel()
	for _, late := range []string{"0.16.0", "0.18.0"} {
		early := map[string]string{"0.16.0": "0.18.0", "0.18.0": "0.16.0"}[late]
		f := faults.NewTap(fixture.NewTable(t))
		fixture.Put(t, f, schema.EncodeVersion(schema.Version{Schema: "0.10.0", ClientMin: "0.0.0", Lambda: "0.15.0"}))
		var once sync.Once
		f.Set(faults.On(faults.Before(func(*faults.Call) (err error) {
			once.Do(func() {
				_, err = dynamo.RaiseVersions(t.Context(), dynamo.Options{API: f.Table, Table: table, Now: now}, dynamo.Versions{Lambda: early})
			})
			return err
		}), faults.PutItem))
		got, err := dynamo.RaiseVersions(t.Context(), dynamo.Options{API: f, Table: table, Now: now}, dynamo.Versions{Lambda: late})
		if err != nil || got.Lambda != "0.18.0" {
			t.Errorf("%s last: %+v, %v", late, got, err)
		}
	}
}

// The answer of the write is lost, and the caller tries again.
func TestRaisingVersionsAgainAfterALostAnswerChangesNothing(t *testing.T) {
	t.Parallel()
	f := faults.NewTap(fixture.NewTable(t))
	o := dynamo.Options{API: f, Table: table, Now: now}
	f.Set(faults.On(faults.LoseAnswer(context.DeadlineExceeded), faults.PutItem))
	to := dynamo.Versions{ClientMin: "0.16.0"}
	_, err := dynamo.RaiseVersions(t.Context(), o, to)
	fixture.WantErr(t, err, store.ErrUnavailable)
	f.Set(nil)
	f.Take()
	got, err := dynamo.RaiseVersions(t.Context(), o, to)
	if err != nil || got.ClientMin != "0.16.0" {
		t.Errorf("got %+v, %v", got, err)
	}
	if diff := cmp.Diff([]string{"GetItem"}, f.Ops()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestRaisedVersionsAreValidated(t *testing.T) {
	t.Parallel()
	o := dynamo.Options{API: fixture.NewTable(t), Table: table, Now: now}
	for _, to := range []dynamo.Versions{{Lambda: "latest"}, {ClientMin: "1"}, {ClientMin: "0.17.1"}} {
		_, err := dynamo.RaiseVersions(t.Context(), o, to)
		fixture.WantErr(t, err, store.ErrInvalid)
	}
	fixture.Put(t, o.API, schema.EncodeVersion(schema.Version{Schema: "0.10.0", ClientMin: "latest"}))
	_, err := dynamo.RaiseVersions(t.Context(), o, dynamo.Versions{ClientMin: "0.17.0"})
	fixture.WantErr(t, err, store.ErrIncompatible)
}
