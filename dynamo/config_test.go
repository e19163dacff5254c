package dynamo_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

var (
	rpm10 = []store.Limit{limiter.PerMinute("rpm", 10)}
	tpm20 = []store.Limit{limiter.PerMinute("tpm", 20)}
	// levels are the four levels of an entity's configuration for a resource.
	levels = []store.ConfigKey{
		{Entity: "user", Resource: "gpt-4"}, {Entity: "user", Resource: store.DefaultResource}, {Resource: "gpt-4"}, {},
	}
)

func wantConfig(t *testing.T, s *dynamo.Store, k store.ConfigKey, want *store.Config) {
	t.Helper()
	got, err := s.Limits(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%+v (-want +got):\n%s", k, diff)
	}
}

func TestLimitsOfEveryLevel(t *testing.T) {
	t.Parallel()
	for _, k := range levels {
		t.Run(fmt.Sprintf("%+v", k), func(t *testing.T) {
			t.Parallel()
			s, f := fixture.NewStore(t)
			_, ns := s.Namespace()
			_, err := s.Limits(t.Context(), k)
			fixture.WantErr(t, err, store.ErrNotFound)
			fixture.SetLimits(t, s, k, append(rpm10, tpm20...))
			wantConfig(t, s, k, &store.Config{Limits: append(rpm10, tpm20...)})
			fixture.SetLimits(t, s, k, tpm20)
			wantConfig(t, s, k, &store.Config{Limits: tpm20})
			want := schema.EncodeConfig(ns, k, &store.Config{Limits: tpm20})
			if diff := cmp.Diff(fmt.Sprint(attrNames(want)), fmt.Sprint(attrNames(fixture.Get(t, f, schema.ConfigKey(ns, k))))); diff != "" {
				t.Errorf("the item (-want +got):\n%s", diff)
			}
			for range 2 { // deleting missing limits is no error
				if err := s.DeleteLimits(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
			if it := fixture.Get(t, f, schema.ConfigKey(ns, k)); it != nil {
				t.Errorf("the item is still there: %v", it)
			}
		})
	}
}

func attrNames(it schema.Item) map[string]bool {
	names := map[string]bool{}
	for n := range it {
		names[n] = true
	}
	return names
}

// count returns the registry's count of entity configurations for a resource, "" if
// there is none.
func count(t *testing.T, s *dynamo.Store, api dynamo.API, resource string) string {
	t.Helper()
	_, ns := s.Namespace()
	n, ok := fixture.Get(t, api, schema.EntityConfigRegistryKey(ns))[resource].(*types.AttributeValueMemberN)
	if !ok {
		return ""
	}
	return n.Value
}

func TestRegistryCountsEntityConfigurations(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	f.Set(faults.Pages(1))
	a, b := store.ConfigKey{Entity: "a", Resource: "gpt-4"}, store.ConfigKey{Entity: "b", Resource: "gpt-4"}
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return s.SetLimits(t.Context(), a, rpm10) }, "1"},
		{func() error { return s.SetLimits(t.Context(), a, tpm20) }, "1"},
		{func() error { return s.SetLimits(t.Context(), b, tpm20) }, "2"},
		{func() error { return s.DeleteLimits(t.Context(), a) }, "1"},
		{func() error { return s.DeleteLimits(t.Context(), a) }, "1"},
		{func() error { return s.SetLimits(t.Context(), a, rpm10) }, "2"},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := count(t, s, f, "gpt-4"); got != step.want {
			t.Errorf("count is %q, want %q", got, step.want)
		}
	}
	names, err := s.EntitiesWithLimits(t.Context(), "gpt-4")
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" || err != nil {
		t.Errorf("entities (-want +got): %v\n%s", err, diff)
	}
	fixture.SetLimits(t, s, store.ConfigKey{Entity: "a", Resource: store.DefaultResource}, rpm10)
	resources, err := s.ResourcesWithEntityLimits(t.Context())
	if diff := cmp.Diff([]string{store.DefaultResource, "gpt-4"}, resources); diff != "" || err != nil {
		t.Errorf("resources (-want +got): %v\n%s", err, diff)
	}
	for _, k := range []store.ConfigKey{a, b} {
		if err := s.DeleteLimits(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	if got := count(t, s, f, "gpt-4"); got != "" {
		t.Errorf("count is %q, want none", got)
	}
}

// If the removal of an unused count fails, the store logs it and returns no error.
func TestRegistryThatIsNotTidiedIsLogged(t *testing.T) {
	t.Parallel()
	f := faults.NewTap(fixture.NewTable(t))
	var log bytes.Buffer
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: f, Table: table, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	remove := func(entity string) {
		t.Helper()
		if err := s.DeleteLimits(t.Context(), store.ConfigKey{Entity: entity, Resource: "gpt-4"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []string{"a", "b", "c"} {
		fixture.SetLimits(t, s, store.ConfigKey{Entity: e, Resource: "gpt-4"}, rpm10)
	}
	remove("a") // the count is still in use
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
	f.Set(faults.Before(func(c *faults.Call) error {
		if c.Op == "UpdateItem" {
			return errors.New("no answer")
		}
		return nil
	}))
	remove("b")
	if !strings.Contains(log.String(), "gpt-4") {
		t.Errorf("logged %q", &log)
	}
}

// A peer's provisioner neither indexes nor counts the entity configuration that it
// writes. Setting limits completes the configuration; deleting it leaves the count as
// it is.
func TestRegistryOfUncountedConfigurations(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	_, ns := s.Namespace()
	k := store.ConfigKey{Entity: "a", Resource: "gpt-4"}
	uncounted := schema.EncodeConfig(ns, k, &store.Config{Limits: rpm10})
	delete(uncounted, schema.GSI3PK)
	delete(uncounted, schema.GSI3SK)
	fixture.SetLimits(t, s, store.ConfigKey{Entity: "b", Resource: "gpt-4"}, rpm10)

	fixture.Put(t, f, uncounted)
	if err := s.DeleteLimits(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if got := count(t, s, f, "gpt-4"); got != "1" {
		t.Errorf("deleted: count is %q, want 1", got)
	}
	fixture.Put(t, f, uncounted)
	fixture.SetLimits(t, s, k, tpm20)
	if got := count(t, s, f, "gpt-4"); got != "2" {
		t.Errorf("set: count is %q, want 2", got)
	}
	if names, err := s.EntitiesWithLimits(t.Context(), "gpt-4"); err != nil || len(names) != 2 {
		t.Errorf("entities: %q, %v", names, err)
	}
}

func TestResourcesWithDefaults(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	_, ns := s.Namespace()
	for _, r := range []string{"b", "a", "b"} {
		fixture.SetLimits(t, s, store.ConfigKey{Resource: r}, rpm10)
	}
	got, err := s.ResourcesWithDefaults(t.Context())
	if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" || err != nil {
		t.Errorf("(-want +got): %v\n%s", err, diff)
	}
	for _, r := range []string{"b", "a"} {
		if err := s.DeleteLimits(t.Context(), store.ConfigKey{Resource: r}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.ResourcesWithDefaults(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("after deleting: %q, %v", got, err)
	}
	if it := fixture.Get(t, f, schema.ResourceRegistryKey(ns)); it[schema.Resources] != nil || it[schema.GSI4PK] == nil {
		t.Errorf("the registry is %v", it)
	}
}

func TestSettingLimitsKeepsWhatOperatorsSet(t *testing.T) {
	t.Parallel()
	for _, k := range levels {
		s, f := fixture.NewStore(t)
		_, ns := s.Namespace()
		settings := schema.Item{
			schema.Disabled: schema.S("bypass"), schema.Cascade: schema.Bool(false), schema.AuditRetentionDays: schema.N(7),
			"of the future": schema.Set("x"),
		}
		old := schema.EncodeConfig(ns, k, &store.Config{Limits: rpm10})
		maps.Copy(old, settings)
		old[schema.SchedTZ], old["l_rpm_sched"], old["w_s_rsa"] = schema.S("UTC"), schema.S("1s500"), schema.N(1)
		fixture.Put(t, f, old)

		kept := func(step string) schema.Item {
			it := fixture.Get(t, f, schema.ConfigKey(ns, k))
			for attr := range settings {
				if it[attr] == nil {
					t.Errorf("%+v: %s lost %s", k, step, attr)
				}
			}
			for attr := range it {
				if attr == schema.SchedTZ || attr == "l_rpm_sched" || attr == "w_s_rsa" {
					t.Errorf("%+v: %s kept %s", k, step, attr)
				}
			}
			return it
		}
		fixture.SetLimits(t, s, k, tpm20)
		if it := kept("setting"); it["l_tpm_cp"] == nil || it["l_rpm_cp"] != nil {
			t.Errorf("%+v: set to %v", k, it)
		}
		if err := s.DeleteLimits(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		if it := kept("deleting"); it["l_tpm_cp"] != nil {
			t.Errorf("%+v: deleted to %v", k, it)
		}
	}
}

func TestSystemLimitsAndOnUnavailable(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	_, ns := s.Namespace()
	system := store.ConfigKey{}
	retention := func() {
		t.Helper()
		if it := fixture.Get(t, f, schema.ConfigKey(ns, system)); it[schema.AuditRetentionDays] == nil {
			t.Error("audit retention is lost")
		}
	}
	fixture.Put(t, f, schema.Item{
		schema.PK: schema.S(schema.SystemPK(ns)), schema.SK: schema.S(schema.ConfigSK), schema.AuditRetentionDays: schema.N(30),
	})
	if err := s.SetSystem(t.Context(), rpm10, store.Allow); err != nil {
		t.Fatal(err)
	}
	wantConfig(t, s, system, &store.Config{Limits: rpm10, OnUnavailable: store.Allow})
	fixture.SetLimits(t, s, system, tpm20)
	wantConfig(t, s, system, &store.Config{Limits: tpm20, OnUnavailable: store.Allow})
	retention()
	if err := s.SetSystem(t.Context(), nil, store.Block); err != nil {
		t.Fatal(err)
	}
	wantConfig(t, s, system, &store.Config{OnUnavailable: store.Block})
	if err := s.SetSystem(t.Context(), rpm10, ""); err != nil {
		t.Fatal(err)
	}
	wantConfig(t, s, system, &store.Config{Limits: rpm10})
	if err := s.SetSystem(t.Context(), rpm10, store.Block); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteLimits(t.Context(), system); err != nil {
		t.Fatal(err)
	}
	wantConfig(t, s, system, &store.Config{})
	retention()
	fixture.WantErr(t, s.SetSystem(t.Context(), nil, ""), store.ErrInvalid)
	fixture.WantErr(t, s.SetSystem(t.Context(), rpm10, "shrug"), store.ErrInvalid)
}

// A switch that an operator changes between the read and the write is kept. The write
// is conditional on what was read, and starts over.
func TestSettingLimitsLosesNoConcurrentSwitch(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]bool{"set": false, "delete": true} {
		for _, k := range levels[:3] {
			s, f := fixture.NewStore(t)
			_, ns := s.Namespace()
			fixture.SetLimits(t, s, k, rpm10)
			thrown := false
			f.Set(faults.Before(func(c *faults.Call) error {
				if c.Op == "GetItem" || thrown {
					return nil
				}
				thrown = true
				_, err := f.Table.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
					TableName: aws.String(table), Key: schema.ConfigKey(ns, k).Item(),
					UpdateExpression: aws.String("SET disabled = :true"), ExpressionAttributeValues: schema.Item{":true": schema.Bool(true)},
				})
				return err
			}))
			want := &store.Config{Disabled: store.Switch{Policy: store.Yes}}
			var err error
			if remove {
				err = s.DeleteLimits(t.Context(), k)
			} else {
				want.Limits = tpm20
				err = s.SetLimits(t.Context(), k, tpm20)
			}
			if err != nil {
				t.Fatalf("%s %+v: %v", name, k, err)
			}
			wantConfig(t, s, k, want)
		}
	}
}

func TestSettingLimitsAtOnceLeavesOneOfThem(t *testing.T) {
	t.Parallel()
	for _, k := range levels {
		s, f := fixture.NewStore(t)
		var wg sync.WaitGroup
		for _, limits := range [][]store.Limit{rpm10, tpm20, append(rpm10, tpm20...)} {
			wg.Go(func() {
				if err := s.SetLimits(t.Context(), k, limits); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		c, err := s.Limits(t.Context(), k)
		if err != nil || len(c.Limits) == 0 {
			t.Errorf("%+v: %+v, %v", k, c, err)
		}
		if k.Entity != "" {
			if got := count(t, s, f, k.Resource); got != "1" {
				t.Errorf("%+v: count is %q", k, got)
			}
		}
	}
}

func TestConfigIsCheckedOnEveryPath(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	for _, k := range []store.ConfigKey{
		{Entity: "bad#id", Resource: "gpt-4"},
		{Entity: "user\n", Resource: "gpt-4"},
		{Entity: "user", Resource: "r#x"},
		{Entity: "user"},
		{Entity: "user", Resource: "GSI4PK"},
		{Resource: store.DefaultResource},
		{Resource: "r\n"},
	} {
		_, read := s.Limits(t.Context(), k)
		for what, err := range map[string]error{
			"set": s.SetLimits(t.Context(), k, rpm10), "read": read, "delete": s.DeleteLimits(t.Context(), k),
		} {
			if !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%s %+v: got error %v", what, k, err)
			}
		}
		if k.Resource != "GSI4PK" {
			_, err := s.Load(t.Context(), &store.Load{Configs: []store.ConfigKey{k}})
			fixture.WantErr(t, err, store.ErrInvalid)
		}
	}
	_, err := s.EntitiesWithLimits(t.Context(), "r#x")
	fixture.WantErr(t, err, store.ErrInvalid)
	for _, limits := range [][]store.Limit{
		nil, {limiter.PerMinute("wcu", 1)}, {limiter.PerMinute("rpm", 0)}, {limiter.PerMinute("rpm", 1), limiter.PerMinute("rpm", 2)},
	} {
		for _, k := range levels {
			fixture.WantErr(t, s.SetLimits(t.Context(), k, limits), store.ErrInvalid)
		}
	}
	if len(f.Ops()) != 0 {
		t.Errorf("requests were sent: %q", f.Ops())
	}
}

func TestWatchersHearOfEveryChange(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	var heard []store.ConfigKey
	stop := s.WatchConfig(func(k store.ConfigKey) { heard = append(heard, k) })
	for _, k := range levels {
		fixture.SetLimits(t, s, k, rpm10)
		if err := s.DeleteLimits(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	fixture.SetLimits(t, s, levels[0], rpm10)
	if _, err := s.DeleteEntity(t.Context(), "user"); err != nil {
		t.Fatal(err)
	}
	want := []store.ConfigKey{
		levels[0], levels[0], levels[1], levels[1], levels[2], levels[2], levels[3], levels[3], levels[0], levels[0],
	}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A write that failed may have been applied.
	heard = nil
	f.Set(faults.Before(func(c *faults.Call) error {
		if c.Op != "GetItem" {
			return errors.New("no answer")
		}
		return nil
	}))
	fixture.WantErr(t, s.SetLimits(t.Context(), levels[3], rpm10), store.ErrUnavailable)
	if len(heard) != 1 {
		t.Errorf("a failed write was heard of %d times", len(heard))
	}
	stop()
	f.Set(nil)
	fixture.SetLimits(t, s, levels[3], rpm10)
	if len(heard) != 1 {
		t.Errorf("heard of %v after stop", heard)
	}
}
