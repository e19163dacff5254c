package dynamo_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
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
		"the system hides nothing":                {[]string{"gpt-4=rpm", "bob/*=tpm"}, []string{"system=x"}, nil},
		"nothing below":                           {nil, []string{"bob/*=rpm", "bob/gpt-4=rpm"}, nil},
		"all names":                               {[]string{"system=rpm,tpm"}, []string{"bob/*=tpm,rpm"}, nil},
		"every resource over resources":           {[]string{"system=rpm", "gpt-4=rpm,tpm", "gpt-5=rpm"}, []string{"bob/*=rpm"}, []string{at(anyBob, gpt, "tpm")}},
		"but not where the entity has its own":    {[]string{"gpt-4=rpm,tpm", "bob/gpt-4=x"}, []string{"bob/*=rpm"}, nil},
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
				var names []string
				for _, l := range w.Limits {
					names = append(names, l.Name)
				}
				got = append(got, at(w.To.String(), w.From.String(), strings.Join(names, ",")))
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
