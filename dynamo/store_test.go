package dynamo_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

func TestOpenIsOneRequestAndCreatesNothing(t *testing.T) {
	t.Parallel()
	f := faults.NewTap(fixture.NewTable(t))
	s := fixture.OpenStore(t, f)
	if diff := cmp.Diff([]string{"BatchGetItem"}, f.Ops()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	name, id := s.Namespace()
	forward := fixture.Get(t, f, schema.NamespaceKey("default"))
	if ns, err := schema.DecodeNamespace(forward); err != nil || ns.ID != id || name != "default" {
		t.Errorf("namespace %q is %q, its record %+v, %v", name, id, ns, err)
	}
	if v, ok := s.Version(); !ok || v != (dynamo.Version{Schema: "0.10.0", ClientMin: "0.0.0", Lambda: dynamo.ClientVersion}) {
		t.Errorf("version is %+v, %v", v, ok)
	}
}

func TestOpenOfWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	for _, c := range []struct {
		options dynamo.Options
		want    store.NotFoundError
	}{
		{dynamo.Options{API: db, Table: "nowhere"}, store.NotFoundError{Kind: "table", Name: "nowhere"}},
		{dynamo.Options{API: db, Table: table, Namespace: "nobody"}, store.NotFoundError{Kind: "namespace", Name: "nobody"}},
	} {
		_, err := dynamo.Open(t.Context(), c.options)
		missing := (*store.NotFoundError)(nil)
		if !errors.As(err, &missing) || missing.Kind != c.want.Kind || missing.Name != c.want.Name || missing.Hint == "" {
			t.Errorf("got error %v, want %v with a hint", err, &c.want)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	db := testbed.NewEngine(t, dynamolite.Options{})
	for _, o := range []dynamo.Options{
		{},
		{API: db},
		{API: db, Table: table, Namespace: "_"},
		{API: db, Table: table, Namespace: "a#b"},
		{API: db, Table: table, Timeout: -time.Second},
	} {
		_, err := dynamo.Open(t.Context(), o)
		fixture.WantErr(t, err, store.ErrInvalid)
	}
}

func TestOpenRespectsTheVersionRecord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		record schema.Version
		want   error
	}{
		{schema.Version{Schema: "0.10.0", ClientMin: "0.0.0"}, nil},
		{schema.Version{Schema: "0.10.0", ClientMin: "0.17.0"}, nil},
		{schema.Version{Schema: "0.10.0", ClientMin: "0.17.0rc1"}, nil},
		{schema.Version{Schema: "0.10.0", ClientMin: "0.17.0", Lambda: "0.9.0"}, nil},
		{schema.Version{Schema: "0.10.0", ClientMin: "0.17.1"}, store.ErrIncompatible},
		{schema.Version{Schema: "0.10.0", ClientMin: "1.0.0"}, store.ErrIncompatible},
		{schema.Version{Schema: "1.0.0", ClientMin: "0.0.0"}, store.ErrIncompatible},
		{schema.Version{Schema: "0.10.0", ClientMin: "latest"}, store.ErrIncompatible},
		{schema.Version{Schema: "latest", ClientMin: "0.0.0"}, store.ErrIncompatible},
		{schema.Version{}, nil},
	} {
		db := fixture.NewTable(t)
		fixture.Put(t, db, schema.EncodeVersion(c.record))
		_, err := dynamo.Open(t.Context(), dynamo.Options{API: db, Table: table})
		if !errors.Is(err, c.want) {
			t.Errorf("%+v: got error %v, want %v", c.record, err, c.want)
		}
	}
}

func TestOpenOfATableMadeByHand(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	name := table
	if _, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &name, Key: schema.VersionKey().Item()}); err != nil {
		t.Fatal(err)
	}
	if v, ok := fixture.OpenStore(t, db).Version(); ok {
		t.Errorf("version is %+v, want none", v)
	}
}

func TestReleasesAreOrdered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b  string
		order int
		ok    bool
	}{
		{"0.17.0", "0.17.0", 0, true},
		{"v0.17.0", "0.17.0", 0, true},
		{"0.17", "0.17.0", 0, true},
		{"0.17.0+local.1", "0.17.0", 0, true},
		{"0.9.0", "0.17.0", -1, true},
		{"0.17.10", "0.17.9", 1, true},
		{"1.0.0", "0.99.99", 1, true},
		{"0.17.0rc1", "0.17.0", -1, true},
		{"0.17.0a2", "0.17.0b1", -1, true},
		{"0.17.0.dev5", "0.17.0", -1, true},
		{"0.17.0-beta", "0.17.0", -1, true},
		{"0.17.0rc1", "0.16.9", 1, true},
		{"0.17.0rc1+x", "0.17.0rc1", 0, true},
		{"", "0.17.0", 0, false},
		{"17", "0.17.0", 0, false},
		{"0.17.0.1", "0.17.0", 0, false},
		{"0.17.x", "0.17.0", 0, false},
		{"0.17.0c1", "0.17.0", 0, false},
		{"0.17.0-", "0.17.0", 0, false},
		{"0.+17.0", "0.17.0", 0, false},
		{"0.17.0\n", "0.17.0", 0, false},
		{"vv0.17.0", "0.17.0", 0, false},
		{"99999999999999999999.0", "0.17.0", 0, false},
	} {
		order, ok := dynamo.CompareReleases(c.a, c.b)
		if ok != c.ok || ok && order != c.order {
			t.Errorf("%q against %q: got %d, %v", c.a, c.b, order, ok)
		}
		if back, _ := dynamo.CompareReleases(c.b, c.a); ok && back != -order {
			t.Errorf("%q against %q: got %d backwards", c.a, c.b, back)
		}
	}
}

func TestRequestsAreBoundedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := dynamo.Open(t.Context(), dynamo.Options{API: faults.Wrap(fixture.NewTable(t), faults.On(faults.Hang, faults.GetItem)), Table: table, Timeout: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		long, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wait := func(ctx context.Context, want time.Duration) {
			t.Helper()
			begun := time.Now()
			_, err := s.Entity(ctx, "user")
			fixture.WantErr(t, err, store.ErrUnavailable)
			fixture.WantErr(t, err, context.DeadlineExceeded)
			if waited := time.Since(begun); waited != want {
				t.Errorf("waited %v, want %v", waited, want)
			}
		}
		wait(short, time.Second)
		wait(t.Context(), 3*time.Second)
		wait(long, 56*time.Second)
	})
}

func TestNowIsCorrectedByAnswers(t *testing.T) {
	t.Parallel()
	a := &answer{
		status: http.StatusOK,
		header: http.Header{"Date": {start.Add(time.Minute).UTC().Format(http.TimeFormat)}},
		body: `{"Responses": {"limits": [{"PK": {"S": "_/SYSTEM#"}, "SK": {"S": "#NAMESPACE#default"}, ` +
			`"namespace_id": {"S": "ns1"}, "status": {"S": "active"}}]}}`,
	}
	s, err := dynamo.Open(t.Context(), dynamo.Following(dynamo.Options{API: client(a, static), Table: table, Now: now}))
	if err != nil {
		t.Fatal(err)
	}
	if _, id := s.Namespace(); id != "ns1" {
		t.Errorf("namespace is %q", id)
	}
	if got := s.Now().Sub(start); got != time.Minute+time.Second/2 {
		t.Errorf("corrected by %v, want a minute and the half second that the header hides", got)
	}
}
