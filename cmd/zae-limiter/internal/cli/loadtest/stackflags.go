package loadtest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/stackarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/loadstack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
)

// stackFlags are the flags that describe a stack for load tests. Without a flag, an option
// keeps its value.
type stackFlags struct {
	options stackarg.Flags[loadstack.Options]
	set     *pflag.FlagSet

	source     source
	locustfile string
}

func (f *stackFlags) bind(cmd *cobra.Command) {
	f.set = cmd.Flags()
	f.options.Bind(f.set, loadstack.OptionTable)
	f.set.StringVar(&f.source.name, "scenario", "", "`name` of the scenario that the workers carry out (default simple)")
	f.set.Var(app.Named(&f.source.file), "file", "`file` of a scenario, instead of --scenario")
	f.set.VarP(app.Named(&f.locustfile), "locustfile", "f", "`file` for the master, with the names of the classes and a shape\n(default the classes of the scenario)")
}

// validate checks what needs no stack: each option alone, the scenario and the files.
func (f *stackFlags) validate() error {
	if err := f.options.Validate(); err != nil {
		return err
	}
	if f.set.Changed("scenario") && f.set.Changed("file") {
		return errors.New("give --scenario or --file, not both")
	}
	return f.applyFiles(&loadstack.Options{}, true)
}

// applyTo sets the options of the flags that were given, and leaves the others alone.
func (f *stackFlags) applyTo(o *loadstack.Options, isNew bool) error {
	f.options.Apply(o)
	o.Version = version()
	return f.applyFiles(o, isNew)
}

// applyFiles sets the scenario and the locustfile. A new scenario brings the classes of the
// locustfile with it.
func (f *stackFlags) applyFiles(o *loadstack.Options, isNew bool) error {
	if isNew || f.set.Changed("scenario") || f.set.Changed("file") {
		s := f.source
		if s.file == "" {
			s.name = cmp.Or(s.name, "simple")
		}
		read, err := s.read()
		if err != nil {
			return named(err)
		}
		o.Scenario, o.File, o.Locustfile = s.name, nil, nil
		if s.file != "" {
			if o.File, err = os.ReadFile(s.file); err != nil {
				return err
			}
		}
		if o.Classes, err = classesOf(read); err != nil {
			return err
		}
	}
	if f.locustfile == "" {
		return nil
	}
	text, err := os.ReadFile(f.locustfile)
	if err != nil {
		return fmt.Errorf("read the locustfile: %w", err)
	}
	if len(text) == 0 {
		return fmt.Errorf("invalid --locustfile %q: it is empty", f.locustfile)
	}
	o.Locustfile = text
	return nil
}

// classesOf are the classes of users of a scenario. Locust says how many users there are, in
// proportion to the weights of the classes: here the most users of each.
func classesOf(s *scenario.Scenario) ([]loadstack.Class, error) {
	var all []loadstack.Class
	for i := range s.Classes {
		c := &s.Classes[i]
		if c.Arrival.Open() {
			return nil, fmt.Errorf("scenario %s: class %s has a rate, and Locust says how many users there are: give the class users", s.Name, c.Name)
		}
		all = append(all, loadstack.Class{Name: c.Name, Weight: c.MostUsers()})
	}
	return all, nil
}

// specOf checks options as [loadstack.New] does. An error names the flag that sets the option.
func specOf(o loadstack.Options) (*loadstack.Spec, error) {
	spec, err := loadstack.New(o)
	return spec, stackarg.NameFlag(loadstack.OptionTable, err)
}

// version is the version of this program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return info.Main.Version
}
