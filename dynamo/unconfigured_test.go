package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// levelSpecs are levels written as "bob/gpt-4=rpm,tpm"; "system" is the system's, "gpt-4" a
// resource's, and "bob/*" an entity's for every resource. A level without limits has none.
func levelSpecs(spec ...string) (levels []dynamo.Level) {
	for _, s := range spec {
		target, names, _ := strings.Cut(s, "=")
		entity, resource, ofEntity := strings.Cut(target, "/")
		if !ofEntity {
			entity, resource = "", strings.Replace(target, "system", "", 1)
		}
		l := dynamo.Level{Key: store.ConfigKey{Entity: entity, Resource: strings.Replace(resource, "*", store.DefaultResource, 1)}}
		for name := range strings.SplitSeq(names, ",") {
			if name != "" {
				l.Limits = append(l.Limits, limiter.PerMinute(name, 10))
			}
		}
		levels = append(levels, l)
	}
	return levels
}

// A level that begins to hold, or stops, ends the limits that only the other level has.
func TestUnconfigured(t *testing.T) {
	t.Parallel()
	const (
		hides  = "entity bob for every resource holds instead of the system, and has no limit rpm: requests that name rpm fail, and requests of children take none of it here"
		bob    = "entity bob for gpt-4"
		anyBob = "entity bob for every resource"
		gpt    = "resource gpt-4"
	)
	at := func(to, from, limits string) string { return to + " < " + from + ": " + limits }
	for name, c := range map[string]struct {
		has    []string
		change []string
		want   []string
	}{
		"an entity over the system":               {[]string{"system=rpm,tpm"}, []string{"bob/*=tpm"}, []string{at(anyBob, "the system", "rpm")}},
		"an entity's resource over the system":    {[]string{"system=rpm,tpm"}, []string{"bob/gpt-4=x"}, []string{at(bob, "the system", "rpm,tpm")}},
		"over the resource, not the system":       {[]string{"system=rpm,a", "gpt-4=rpm,b"}, []string{"bob/gpt-4=rpm"}, []string{at(bob, gpt, "b")}},
		"over the entity's own default":           {[]string{"system=a", "gpt-4=b", "bob/*=c"}, []string{"bob/gpt-4=rpm"}, []string{at(bob, anyBob, "c")}},
		"a resource over the system":              {[]string{"system=rpm,tpm"}, []string{"gpt-4=rpm"}, []string{at(gpt, "the system", "tpm")}},
		"the system replaces nothing":             {[]string{"gpt-4=rpm", "bob/*=tpm", "system=x"}, []string{"system=x"}, nil},
		"nothing below":                           {nil, []string{"bob/*=rpm", "bob/gpt-4=rpm"}, nil},
		"all names":                               {[]string{"system=rpm,tpm"}, []string{"bob/*=tpm,rpm"}, nil},
		"every resource over resources":           {[]string{"system=rpm", "gpt-4=rpm,tpm", "gpt-5=rpm"}, []string{"bob/*=rpm"}, []string{at(anyBob, gpt, "tpm")}},
		"but not where the entity has its own":    {[]string{"gpt-4=rpm,tpm", "bob/gpt-4=rpm"}, []string{"bob/*=rpm"}, nil},
		"set again":                               {[]string{"system=rpm", "bob/*=tpm"}, []string{"bob/*=tpm"}, []string{at(anyBob, "the system", "rpm")}},
		"deleted over the system":                 {[]string{"system=rpm", "bob/*=rpm,tpm"}, []string{"bob/*="}, []string{at("the system", anyBob, "tpm")}},
		"deleted over the own default":            {[]string{"system=tpm", "bob/*=rpm", "bob/gpt-4=rpm,tpm"}, []string{"bob/gpt-4="}, []string{at(anyBob, bob, "tpm")}},
		"deleted over nothing":                    {[]string{"gpt-4=rpm"}, []string{"gpt-4="}, []string{at("the system", gpt, "rpm")}},
		"deleted over resources":                  {[]string{"system=a,b", "gpt-4=a", "bob/*=b"}, []string{"bob/*="}, []string{at(gpt, anyBob, "b")}},
		"deleted without limits":                  {[]string{"system=a"}, []string{"bob/*="}, nil},
		"the system is deleted":                   {[]string{"system=a"}, []string{"system="}, nil},
		"together: the level below is new":        {nil, []string{"system=rpm", "gpt-4=tpm"}, []string{at(gpt, "the system", "rpm")}},
		"together: the level below goes":          {[]string{"system=rpm"}, []string{"system=", "gpt-4=tpm"}, nil},
		"together: the entity gets both":          {[]string{"gpt-4=rpm,tpm"}, []string{"bob/*=rpm", "bob/gpt-4=tpm,rpm"}, nil},
		"together: a resource that is new, too":   {nil, []string{"gpt-4=tpm", "bob/*=rpm"}, []string{at(anyBob, gpt, "tpm")}},
		"the system gains, a resource hides":      {[]string{"system=rpm", "gpt-4=rpm", "gpt-5=rpm,tpm"}, []string{"system=rpm,tpm"}, []string{at(gpt, "the system", "tpm")}},
		"the system is new under all others":      {[]string{"gpt-4=a", "bob/*=b", "ann/gpt-4=c", "ann/gpt-5=d"}, []string{"system=x"}, []string{at(gpt, "the system", "x"), at(anyBob, "the system", "x"), at("entity ann for gpt-5", "the system", "x")}},
		"a resource gains, entities hide":         {[]string{"system=a", "gpt-4=rpm", "bob/*=rpm", "bob/gpt-4=rpm", "ann/*=rpm", "cid/gpt-4=x", "dan/gpt-4=tpm", "eve/gpt-5=x"}, []string{"gpt-4=rpm,tpm"}, []string{at(gpt, "the system", "a"), at("entity ann for every resource", gpt, "tpm"), at("entity cid for gpt-4", gpt, "tpm")}},
		"an entity gains, its resource hides":     {[]string{"bob/*=rpm", "bob/gpt-4=rpm", "bob/gpt-5=tpm", "ann/gpt-4=x"}, []string{"bob/*=rpm,tpm"}, []string{at(bob, anyBob, "tpm")}},
		"a limit that is renamed below":           {[]string{"system=rpm,tpm", "gpt-4=rpm,tpm"}, []string{"system=rps,tpm"}, []string{at(gpt, "the system", "rps")}},
		"a limit that goes below":                 {[]string{"system=rpm,tpm", "gpt-4=x"}, []string{"system=rpm"}, nil},
		"nothing is hidden once the level goes":   {[]string{"gpt-4=rpm"}, []string{"gpt-4=", "system=rpm,tpm"}, nil},
		"together: each pair once":                {[]string{"gpt-4=x"}, []string{"system=rpm", "gpt-4=tpm"}, []string{at(gpt, "the system", "rpm")}},
		"together: several levels gain":           {[]string{"bob/gpt-4=x"}, []string{"system=a", "gpt-4=b", "bob/*=c"}, []string{at(gpt, "the system", "a"), at(anyBob, "the system", "a"), at(bob, anyBob, "c")}},
		"another entity's limits do not matter":   {[]string{"ann/*=rpm"}, []string{"bob/*=tpm"}, nil},
		"another resource's limits do not matter": {[]string{"gpt-5=rpm"}, []string{"bob/gpt-4=tpm"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := fixture.NewStore(t)
			if err := errors.Join(s.SetLevels(t.Context(), levelSpecs(c.has...))...); err != nil {
				t.Fatal(err)
			}
			warnings, err := s.Unconfigured(t.Context(), levelSpecs(c.change...))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range warnings {
				got = append(got, brief(w))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if name == "an entity over the system" && warnings[0].String() != hides {
				t.Errorf("got %s", warnings[0])
			}
		})
	}
}

// The warnings are true: once the missing limits are set, too, no request fails.
func TestALimitThatEndsFailsRequests(t *testing.T) {
	t.Parallel()
	s, _ := fixture.NewStore(t)
	rpm, tpm := limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 10)
	bob := store.ConfigKey{Entity: "bob", Resource: store.DefaultResource}
	if err := s.SetSystem(t.Context(), []store.Limit{rpm}, ""); err != nil {
		t.Fatal(err)
	}
	warnings, err := s.Unconfigured(t.Context(), []dynamo.Level{{Key: bob, Limits: []store.Limit{tpm}}})
	if err != nil || len(warnings) != 1 {
		t.Fatalf("%v, %v", warnings, err)
	}
	for _, c := range []struct {
		limits []store.Limit
		want   error
	}{{[]store.Limit{tpm}, limiter.ErrNotConfigured}, {append(warnings[0].Limits, tpm), nil}} {
		if err := s.SetLimits(t.Context(), bob, c.limits); err != nil {
			t.Fatal(err)
		}
		l, err := limiter.New(s, limiter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(t.Context(), limiter.Request{Entity: "bob", Resource: "gpt-4", Consume: map[string]int64{"rpm": 1}}); !errors.Is(err, c.want) {
			t.Errorf("with %v: got %v, want %v", c.limits, err, c.want)
		}
	}
}

// SetLimits logs the limits that it ends, for a store with a Logger. It asks for them only
// if it changes a level above another.
func TestSetLimitsLogsLimitsThatEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has    []string
		set    string
		logger bool
		want   []string
		reads  int // of other levels
	}{
		"over the system":       {[]string{"system=rpm,tpm"}, "bob/*=tpm", true, []string{"entity bob for every resource < the system: rpm"}, 1},
		"over a resource":       {[]string{"gpt-4=rpm,tpm"}, "bob/gpt-4=a", true, []string{"entity bob for gpt-4 < resource gpt-4: rpm,tpm"}, 1},
		"over several":          {[]string{"system=a", "gpt-4=b"}, "bob/*=c", true, []string{"entity bob for every resource < the system: a", "entity bob for every resource < resource gpt-4: b"}, 2},
		"nothing ends":          {[]string{"system=rpm"}, "bob/gpt-4=rpm,tpm", true, nil, 1},
		"what is set already":   {[]string{"system=rpm", "gpt-4=tpm"}, "gpt-4=tpm", true, nil, 0},
		"the system":            {[]string{"system=rpm", "gpt-4=tpm"}, "system=x", true, nil, 0},
		"nobody reads warnings": {[]string{"system=rpm"}, "gpt-4=tpm", false, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine := faults.NewTap(fixture.NewTable(t))
			o := dynamo.Options{API: engine, Table: table}
			var log records
			if c.logger {
				o.Logger = slog.New(&log)
			}
			s, err := dynamo.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.SetLevels(t.Context(), levelSpecs(c.has...))...); err != nil {
				t.Fatal(err)
			}
			reads := 0
			engine.Set(faults.Before(func(f *faults.Call) error {
				if f.Op == "BatchGetItem" {
					reads++
				}
				return nil
			}))
			l := levelSpecs(c.set)[0]
			fixture.SetLimits(t, s, l.Key, l.Limits)
			if diff := cmp.Diff(c.want, log.warnings()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if reads != c.reads {
				t.Errorf("read other levels in %d requests, want %d", reads, c.reads)
			}
		})
	}
}

// A change of limits succeeds although nobody can say what it ends.
func TestSetLimitsWithoutTheLevelsBelow(t *testing.T) {
	t.Parallel()
	engine := faults.NewTap(fixture.NewTable(t))
	var log records
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: engine, Table: table, Logger: slog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	engine.Set(faults.Before(func(f *faults.Call) error {
		if f.Op == "BatchGetItem" {
			return &types.ResourceNotFoundException{}
		}
		return nil
	}))
	fixture.SetLimits(t, s, store.ConfigKey{Resource: "gpt-4"}, []store.Limit{limiter.PerMinute("rpm", 10)})
	if got := log.messages(); len(got) != 1 || !strings.HasPrefix(got[0], "limits set: whether they end") {
		t.Errorf("logged %q", got)
	}
}

// A caller that may not list the levels above still learns which limits end.
func TestLimitsThatEndAreKnownWithoutTheLevelsAbove(t *testing.T) {
	t.Parallel()
	var log records
	var denied faults.Slot
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: faults.Wrap(fixture.NewTable(t), denied.Apply), Table: table, Logger: slog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.SetLevels(t.Context(), levelSpecs("system=rpm,tpm", "bob/gpt-4=rpm"))...); err != nil {
		t.Fatal(err)
	}
	denied.Set(faults.On(faults.Fail(&smithy.GenericAPIError{Code: "AccessDeniedException"}), faults.Query))
	warnings, err := s.Unconfigured(t.Context(), levelSpecs("gpt-4=rpm,rpd"))
	if err != nil || len(warnings) != 1 || len(log.messages()) != 1 {
		t.Errorf("%v, %v, logged %v", warnings, err, log.messages())
	}
}

// A limit that thousands of levels hide has a bounded number of warnings, and the log says
// that there are more. A level that cannot be read has no limits.
func TestManyLevelsHideALimit(t *testing.T) {
	t.Parallel()
	engine := fixture.NewTable(t)
	var log records
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: engine, Table: table, Logger: slog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	const bound = 1000
	var levels []dynamo.Level
	for i := range bound + 1 {
		levels = append(levels, levelSpecs(fmt.Sprintf("e%04d/gpt-4=rpm", i))...)
	}
	for _, c := range []struct{ levels, warnings, logged int }{{bound, bound, 0}, {bound + 1, bound, 1}} {
		if err := errors.Join(s.SetLevels(t.Context(), levels[:c.levels])...); err != nil {
			t.Fatal(err)
		}
		warnings, err := s.Unconfigured(t.Context(), levelSpecs("gpt-4=tpm"))
		if logged := len(log.messages()); err != nil || len(warnings) != c.warnings || logged != c.logged {
			t.Errorf("of %d levels: %d warnings, %d messages, %v", c.levels, len(warnings), logged, err)
		}
	}
	_, ns := s.Namespace()
	damaged := fixture.Get(t, engine, schema.ConfigKey(ns, levels[0].Key))
	damaged["on_unavailable"] = schema.S("perhaps")
	fixture.Put(t, engine, damaged)
	warnings, err := s.Unconfigured(t.Context(), levelSpecs("gpt-4=tpm"))
	if err != nil || len(warnings) != bound-1 {
		t.Errorf("beside a damaged level: %d warnings, %v", len(warnings), err)
	}
}

// records is a log.
type records struct {
	mu  sync.Mutex
	all []slog.Record
}

func (*records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler     { return r }
func (r *records) WithGroup(string) slog.Handler          { return r }

func (r *records) Handle(_ context.Context, record slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, record)
	return nil
}

func (r *records) messages() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range r.all {
		all = append(all, record.Message)
	}
	return all
}

// warnings are the logged warnings, as [brief] writes them.
func (r *records) warnings() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range r.all {
		record.Attrs(func(a slog.Attr) bool {
			if w, ok := a.Value.Any().(limiter.UnconfiguredWarning); ok && a.Key == "warning" {
				all = append(all, brief(w))
			}
			return true
		})
	}
	return all
}

// brief is a warning in few words: the level that holds, the one with the limits, and their
// names.
func brief(w limiter.UnconfiguredWarning) string {
	var names []string
	for _, l := range w.Limits {
		names = append(names, l.Name)
	}
	return w.To.String() + " < " + w.From.String() + ": " + strings.Join(names, ",")
}
