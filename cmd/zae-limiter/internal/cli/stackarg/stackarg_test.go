package stackarg_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/stackarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/loadstack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/option"
	"github.com/zeroae/zae-limiter-go/store"
)

// other is a flag with a value for an option that differs from the one it has, and the option
// as the flag sets it.
func other(field any, flag, opposite string, words, values []string) (argument string, want any) {
	last := len(values) - 1
	switch v := field.(type) {
	case *int:
		return "--" + flag + "=7", 7
	case *bool:
		if *v {
			return "--" + opposite, false
		}
		return "--" + flag, true
	case *string:
		switch {
		case words != nil:
			return "--" + flag + "=" + words[last], values[last]
		case values != nil:
			return "--" + flag + "=" + values[last], values[last]
		}
		return "--" + flag + "=text", "text"
	case *[]string: // of one window, or of any text
		return "--" + flag + "=monthly", []string{"monthly"}
	case *time.Duration:
		return "--" + flag + "=7s", 7 * time.Second
	}
	return "--" + flag + "=team=core", map[string]string{"team": "core"}
}

// A flag sets its option, and no other one.
func TestAFlagSetsItsOption(t *testing.T) {
	t.Parallel()
	setsItsOption(t, deploy.OptionTable, deploy.Defaults)
	setsItsOption(t, loadstack.OptionTable, loadstack.Defaults)
}

func setsItsOption[O any](t *testing.T, table option.Table[O], defaults func() O) {
	t.Helper()
	for _, r := range table {
		if r.Text == "" {
			continue
		}
		var f stackarg.Flags[O]
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Bind(set, table)
		o, usual := defaults(), defaults()
		argument, want := other(r.Of(&o), r.Flag, r.Opposite, r.Words, r.Values)
		if err := set.Parse([]string{argument}); err != nil {
			t.Errorf("%s: %v", argument, err)
			continue
		}
		f.Apply(&o)
		for _, one := range table {
			if one.Of == nil {
				continue
			}
			is := reflect.ValueOf(one.Of(&usual)).Elem().Interface()
			if one.Name == r.Name {
				is = want
			}
			if diff := cmp.Diff(is, reflect.ValueOf(one.Of(&o)).Elem().Interface()); diff != "" {
				t.Errorf("%s sets %s (-want +got):\n%s", argument, one.Name, diff)
			}
		}
	}
}

func TestAFlagAndItsOppositeContradict(t *testing.T) {
	t.Parallel()
	for _, r := range deploy.OptionTable {
		if r.Opposite == "" {
			continue
		}
		var f stackarg.Flags[deploy.Options]
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Bind(set, deploy.OptionTable)
		if err := set.Parse([]string{"--" + r.Flag, "--" + r.Opposite}); err != nil {
			t.Error(err)
		}
		if err := f.Validate(); err == nil {
			t.Errorf("--%s and --%s are taken together", r.Flag, r.Opposite)
		}
	}
}

func TestAnErrorNamesTheFlag(t *testing.T) {
	t.Parallel()
	for flag, change := range map[string]func(*deploy.Options){
		"--lambda-timeout":     func(o *deploy.Options) { o.TimeoutSeconds = 3600 },
		"--target-utilization": func(o *deploy.Options) { o.Capacity.TargetPercent = 91 },
		"--name":               func(o *deploy.Options) { o.Name = "a.b" },
		"--tag":                func(o *deploy.Options) { o.Tags = map[string]string{"aws:x": ""} },
		"CodeKey":              func(o *deploy.Options) { o.CodeKey = "a b" },
	} {
		o := deploy.Defaults()
		change(&o)
		_, err := stackarg.Spec(o)
		bad := (*store.ValidationError)(nil)
		if !errors.As(err, &bad) || bad.Field != flag || bad.Reason == "" {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if _, err := stackarg.Spec(deploy.Defaults()); err != nil {
		t.Error(err)
	}
}
