package loadtest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/stackarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/loadstack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

// stackFlags are the flags that describe a stack for load tests. Without a flag, an option
// keeps its value.
type stackFlags struct {
	set   *pflag.FlagSet
	apply map[string]func(*loadstack.Options) // by the flag's name
	// fields are the flags by the options that they set, as validation errors name them.
	fields map[string]string

	source     source
	locustfile string
	tags       stackarg.Tags
}

func (f *stackFlags) bind(cmd *cobra.Command) {
	f.set, f.apply, f.fields, f.tags = cmd.Flags(), map[string]func(*loadstack.Options){}, map[string]string{}, stackarg.Tags{}
	list(f, "Subnets", "subnet-ids", "`IDs` of the subnets of master and workers; a new stack needs them", func(o *loadstack.Options) *[]string { return &o.Subnets })
	word(f, "VPC", "vpc-id", "`ID` of the network; a new stack needs it", func(o *loadstack.Options) *string { return &o.VPC })
	list(f, "RouteTables", "route-table-ids", "`IDs` of the route tables that get an endpoint of DynamoDB; workers in\nsubnets without a way out need it (default no endpoint)", func(o *loadstack.Options) *[]string { return &o.RouteTables })
	yes(f, "PublicIP", "public-ip", "give the tasks public addresses, to fetch their images; nothing can\nconnect to them", func(o *loadstack.Options) *bool { return &o.PublicIP })
	yes(f, "PrivateEndpoints", "private-endpoints", "make interface endpoints for subnets without a way out", func(o *loadstack.Options) *bool { return &o.PrivateEndpoints })
	yes(f, "Off", "off", "stop master, orchestrator and workers; --off=false starts them again", func(o *loadstack.Options) *bool { return &o.Off })

	f.set.StringVar(&f.source.name, "scenario", "", "`name` of the scenario that the workers carry out (default simple)")
	f.set.Var(app.Named(&f.source.file), "file", "`file` of a scenario, instead of --scenario")
	f.set.VarP(app.Named(&f.locustfile), "locustfile", "f", "`file` for the master, with the names of the classes and a shape\n(default the classes of the scenario)")
	f.fields["Scenario"], f.fields["File"], f.fields["Locustfile"], f.fields["Tags"] = "scenario", "file", "locustfile", "tag"
	f.fields["Limiter"], f.fields["Classes"] = "name", "scenario"
	word(f, "Image", "image", "`image` of Locust (default "+loadstack.DefaultImage+")", func(o *loadstack.Options) *string { return &o.Image })
	list(f, "Arguments", "locust-arguments", "more `arguments` of the master, with commas between them", func(o *loadstack.Options) *[]string { return &o.Arguments })
	number(f, "CPU", "cpu", "`units` of CPU of a task, 1024 are a processor (default 1024)", func(o *loadstack.Options) *int { return &o.CPU })
	number(f, "MemoryMB", "memory", "memory of a task in `MB` (default 2048)", func(o *loadstack.Options) *int { return &o.MemoryMB })
	choose(f, "TaskArchitecture", "task-arch", map[string]loadstack.TaskArchitecture{"amd64": loadstack.TaskAMD64, "arm64": loadstack.TaskARM64},
		"processors of the tasks; the images must be for them (default amd64)", func(o *loadstack.Options) *loadstack.TaskArchitecture { return &o.TaskArchitecture })
	choose(f, "Capacity", "capacity-provider", map[string]loadstack.Capacity{"FARGATE": loadstack.Fargate, "FARGATE_SPOT": loadstack.Spot},
		"where the tasks run; FARGATE_SPOT costs less, and AWS may end the\nmaster, which loses its statistics (default FARGATE)", func(o *loadstack.Options) *loadstack.Capacity { return &o.Capacity })

	number(f, "MinWorkers", "min-workers", "least `number` of workers on Lambda (default 1)", func(o *loadstack.Options) *int { return &o.MinWorkers })
	number(f, "MaxWorkers", "max-workers", "most `number` of workers on Lambda that carry load (default 100)", func(o *loadstack.Options) *int { return &o.MaxWorkers })
	number(f, "UsersPerWorker", "users-per-worker", "`number` of users that a worker carries (default 10)", func(o *loadstack.Options) *int { return &o.UsersPerWorker })
	number(f, "WorkerMemoryMB", "worker-memory", "memory of a worker in `MB`; 1769 is one processor (default 1769)", func(o *loadstack.Options) *int { return &o.WorkerMemoryMB })
	timeout := f.set.Duration("worker-timeout", 0, "`time` after which a worker is replaced, 7m30s to 15m (default 15m)")
	f.add("WorkerTimeout", "worker-timeout", func(o *loadstack.Options) { o.WorkerTimeout = *timeout })
	word(f, "WorkerImage", "worker-image", "`image` whose entry point is this program, for workers on Fargate", func(o *loadstack.Options) *string { return &o.WorkerImage })
	number(f, "FargateWorkers", "fargate-workers", "`number` of workers on Fargate (default 0)", func(o *loadstack.Options) *int { return &o.FargateWorkers })

	word(f, "CodeBucket", "code-bucket", "name of the `bucket` for the code (default that of the limiter's stack)", func(o *loadstack.Options) *string { return &o.CodeBucket })
	number(f, "LogRetentionDays", "log-retention-days", "`days` for which logs are kept (default 7)", func(o *loadstack.Options) *int { return &o.LogRetentionDays })
	word(f, "PermissionBoundary", "permission-boundary", "`policy`, by name or ARN, that bounds every role (default that of the\nlimiter's stack)", func(o *loadstack.Options) *string { return &o.PermissionBoundary })
	word(f, "RoleNameFormat", "role-name-format", "`format` of the names of roles, team-{} for instance (default that\nof the limiter's stack)", func(o *loadstack.Options) *string { return &o.RoleNameFormat })
	f.set.VarP(&f.tags, "tag", "t", "`KEY=VALUE` of a tag of the stack; repeat the flag for more, up\nto 44")
}

// add records what a flag does to the options, and which field it sets.
func (f *stackFlags) add(field, flag string, apply func(*loadstack.Options)) {
	f.fields[field], f.apply[flag] = flag, apply
}

func word(f *stackFlags, field, flag, usage string, of func(*loadstack.Options) *string) {
	v := f.set.String(flag, "", usage)
	f.add(field, flag, func(o *loadstack.Options) { *of(o) = *v })
}

func number(f *stackFlags, field, flag, usage string, of func(*loadstack.Options) *int) {
	v := f.set.Int(flag, 0, usage)
	f.add(field, flag, func(o *loadstack.Options) { *of(o) = *v })
}

func yes(f *stackFlags, field, flag, usage string, of func(*loadstack.Options) *bool) {
	v := f.set.Bool(flag, false, usage)
	f.add(field, flag, func(o *loadstack.Options) { *of(o) = *v })
}

func list(f *stackFlags, field, flag, usage string, of func(*loadstack.Options) *[]string) {
	v := f.set.StringSlice(flag, nil, usage)
	f.add(field, flag, func(o *loadstack.Options) {
		*of(o) = nil
		for _, item := range *v {
			*of(o) = append(*of(o), strings.TrimSpace(item))
		}
	})
}

func choose[T ~string](f *stackFlags, field, flag string, values map[string]T, usage string, of func(*loadstack.Options) *T) {
	var v string
	words := make([]string, 0, len(values))
	for w := range values {
		words = append(words, w)
	}
	slices.Sort(words)
	f.set.Var(app.Choice(&v, words...), flag, usage)
	f.add(field, flag, func(o *loadstack.Options) { *of(o) = values[v] })
}

// validate checks what needs no stack: numbers, the scenario and the files.
func (f *stackFlags) validate() error {
	for flag := range f.apply {
		given := f.set.Lookup(flag)
		if given.Value.Type() == "int" && given.Changed && given.Value.String() == "0" && flag != "fargate-workers" {
			return fmt.Errorf("invalid --%s 0: give at least 1, or leave the flag out", flag)
		}
	}
	if f.set.Changed("scenario") && f.set.Changed("file") {
		return errors.New("give --scenario or --file, not both")
	}
	o := loadstack.Options{}
	return f.applyFiles(&o, true)
}

// applyTo sets the options of the flags that were given, and leaves the others alone.
func (f *stackFlags) applyTo(o *loadstack.Options, isNew bool) error {
	for flag, apply := range f.apply {
		if f.set.Changed(flag) {
			apply(o)
		}
	}
	if len(f.tags) > 0 {
		o.Tags = f.tags
	}
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

// spec checks options as [loadstack.New] does. An error names the flag that sets the option.
func (f *stackFlags) spec(o loadstack.Options) (*loadstack.Spec, error) {
	spec, err := loadstack.New(o)
	bad := (*store.ValidationError)(nil)
	if errors.As(err, &bad) {
		if flag, ok := f.fields[bad.Field]; ok {
			return nil, &store.ValidationError{Field: "--" + flag, Value: bad.Value, Reason: bad.Reason}
		}
	}
	return spec, err
}

// version is the version of this program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return info.Main.Version
}
