package loadstack

import (
	"cmp"
	_ "embed"
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/option"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/fleet"
)

//go:embed template.yaml
var template string

const (
	suffix = "-load"
	// TypeLoadTest is the value of [deploy.TagType].
	TypeLoadTest = "load-test"
	// WebPort is the port of the master's web page.
	WebPort = 8089
	// Container is the name of the master's container.
	Container = "locust"

	// OutputCluster is the output with the name of the cluster.
	OutputCluster = "ClusterName"
	// OutputService is the output with the name of the master's service.
	OutputService = "MasterServiceName"

	// The most characters of a parameter, and of the environment variable that has the
	// scenario: a function has 4 KB of variables.
	maxLocustfile = 4096
	maxScenario   = 3000
)

// A Spec is what a stack is to be: options that were checked.
type Spec struct {
	o Options
}

// New checks the options, which began as [Defaults]. An option that is not acceptable gives a
// [*store.ValidationError], which names the field and what to do.
func New(o Options) (*Spec, error) {
	if err := cmp.Or(o.checkLimiter(), OptionTable.Check(&o)); err != nil {
		return nil, err
	}
	o.Version = cmp.Or(o.Version, "unknown")
	if len(o.Locustfile) == 0 {
		o.Locustfile = Locustfile(o.Classes)
	}
	if err := cmp.Or(fits("Locustfile", o.Locustfile, maxLocustfile), fits("File", o.File, maxScenario)); err != nil {
		return nil, err
	}
	return &Spec{o.clone()}, nil
}

// fits checks the length of a text as a parameter.
func fits(field string, text []byte, most int) error {
	value, err := pack(text)
	if err == nil && len(value) > most {
		err = invalid(field, fmt.Sprintf("%d bytes", len(text)), fmt.Sprintf("it has %d characters as a parameter of the stack, and %d have room: shorten it", len(value), most))
	}
	return err
}

// Options returns the options.
func (s *Spec) Options() Options { return s.o.clone() }

// Name is the name of the stack.
func (s *Spec) Name() string { return NameOf(s.o.Limiter) }

// NameOf is the name of the stack for load tests of a limiter.
func NameOf(limiter string) string { return limiter + suffix }

// Template returns the template as CloudFormation receives it.
func (s *Spec) Template() []byte { return []byte(template) }

// fleet are the options that decide about workers.
func (s *Spec) fleet() fleet.Options {
	return fleet.Options{Min: s.o.MinWorkers, Max: s.o.MaxWorkers, UsersPerWorker: s.o.UsersPerWorker, Timeout: s.o.WorkerTimeout}
}

// Parameters returns a value for each parameter of the template, in the template's order.
func (s *Spec) Parameters() []deploy.Parameter { return deploy.ParametersOf(OptionTable, &s.o) }

// Concurrency is the most workers on Lambda that exist at a time: MaxWorkers, and those that
// exist twice while one replaces another. So many of the account's concurrent calls are
// reserved.
func (s *Spec) Concurrency() int { return s.fleet().Concurrency() }

// Tags returns the user's tags and those of the project, sorted by key. A key of the
// project has the project's value, whatever the user's is.
func (s *Spec) Tags() []deploy.Tag {
	return deploy.TagsOf(s.o.Tags, map[string]string{
		deploy.TagManagedBy: deploy.ManagedByValue, deploy.TagName: s.o.Limiter, deploy.TagType: TypeLoadTest, deploy.TagVersion: s.o.Version,
	})
}

// class matches a name that is the same text in Python.
var class = option.Pattern(`\A[\w.-]{1,64}\z`)

// Locustfile makes a locustfile with classes of users. Their users do nothing in Locust's
// own workers: workers of this program know the classes by their names, and carry them out.
func Locustfile(classes []Class) []byte {
	var b strings.Builder
	b.WriteString(`from locust import User as _User, constant as _constant


def _nothing(user):
    pass


for _name, _weight in [
`)
	for _, c := range classes {
		fmt.Fprintf(&b, "    (%q, %d),\n", c.Name, c.Weight)
	}
	b.WriteString(`]:
    globals()[_name] = type(_name, (_User,), {"weight": _weight, "wait_time": _constant(1), "tasks": [_nothing]})
`)
	return []byte(b.String())
}
