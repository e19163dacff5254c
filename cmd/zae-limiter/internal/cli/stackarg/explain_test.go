package stackarg_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/stackarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/store"
)

// options are the names of all options, as validation errors have them.
func options(of reflect.Type, prefix string) []string {
	var names []string
	for f := range of.Fields() {
		if f.Type.Kind() == reflect.Struct {
			names = append(names, options(f.Type, f.Name+".")...)
		} else {
			names = append(names, prefix+f.Name)
		}
	}
	return names
}

func TestEveryOptionHasAFlag(t *testing.T) {
	t.Parallel()
	without := []string{"CodeKey", "StartingPosition", "Version"} // the commands set them
	flags := stackarg.FlagOf()
	for _, option := range options(reflect.TypeFor[deploy.Options](), "") {
		if _, ok := flags[option]; ok == slices.Contains(without, option) {
			t.Errorf("option %s: a flag is %v", option, ok)
		}
	}
	if _, ok := flags[""]; ok {
		t.Errorf("the flag %s sets no option", flags[""])
	}
}

func TestAnErrorNamesTheFlag(t *testing.T) {
	t.Parallel()
	for flag, o := range map[string]deploy.Options{
		"--lambda-timeout":     {Timeout: time.Hour},
		"--target-utilization": {Capacity: deploy.Capacity{TargetPercent: 91}},
		"--name":               {Name: "a.b"},
		"--tag":                {Tags: map[string]string{"aws:x": ""}},
		"CodeKey":              {CodeKey: "a b"},
	} {
		_, err := stackarg.Spec(o)
		bad := (*store.ValidationError)(nil)
		if !errors.As(err, &bad) || bad.Field != flag || bad.Reason == "" {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if _, err := stackarg.Spec(deploy.Options{}); err != nil {
		t.Error(err)
	}
}
