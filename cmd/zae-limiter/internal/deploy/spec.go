package deploy

import (
	"cmp"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/option"
)

// SchemaVersion is the version of the table's schema that the stack is made for.
const SchemaVersion = "0.10.0"

// Tags that the project puts on every stack, besides the user's.
const (
	TagManagedBy     = "ManagedBy" // always ManagedByValue
	ManagedByValue   = "zae-limiter"
	TagName          = "zae-limiter:name"
	TagType          = "zae-limiter:type" // always TypeLimiter
	TypeLimiter      = "limiter"
	TagVersion       = "zae-limiter:version"
	TagSchemaVersion = "zae-limiter:schema-version"
	TagLambdaVersion = "zae-limiter:lambda-version"
)

// A Spec is what a stack is to be: options that were checked.
type Spec struct{ o Options }

// New checks the options, which began as [Defaults]. An option that is not acceptable gives a
// [*store.ValidationError], which names the field and what to do.
func New(o Options) (*Spec, error) {
	for _, format := range []*string{&o.RoleNameFormat, &o.PolicyNameFormat} {
		if *format == placeholder {
			*format = ""
		}
	}
	if err := OptionTable.Check(&o); err != nil {
		return nil, err
	}
	o.Version = cmp.Or(o.Version, "unknown")
	o.Tags = maps.Clone(o.Tags)
	return &Spec{o}, nil
}

// Options returns the options.
func (s *Spec) Options() Options {
	o := s.o
	o.Tags = maps.Clone(o.Tags)
	return o
}

// Name is the name of the stack and of its table.
func (s *Spec) Name() string { return s.o.Name }

// A Parameter is a parameter of the template with its value.
type Parameter struct {
	Key   string `json:"ParameterKey"`   // name of the parameter
	Value string `json:"ParameterValue"` // its value
}

// Parameters returns a value for each parameter of the template, in the template's order.
func (s *Spec) Parameters() []Parameter { return ParametersOf(OptionTable, &s.o) }

// ParametersOf are the parameters of a table for options, in the order of the table.
func ParametersOf[O any](table option.Table[O], o *O) (all []Parameter) {
	for key, value := range table.Parameters(o) {
		all = append(all, Parameter{key, value})
	}
	return all
}

// A Tag is a tag of the stack, which CloudFormation gives to what is in it.
type Tag struct {
	Key   string `json:"Key"`   // name of the tag
	Value string `json:"Value"` // its value
}

// Tags returns the user's tags and those of the project, sorted by key. A key of the
// project has the project's value, whatever the user's is.
func (s *Spec) Tags() []Tag {
	return TagsOf(s.o.Tags, map[string]string{
		TagManagedBy: ManagedByValue, TagName: s.o.Name, TagType: TypeLimiter,
		TagVersion: s.o.Version, TagSchemaVersion: SchemaVersion, TagLambdaVersion: s.o.Version,
	})
}

// TagsOf are the user's tags and those of the project, which win, sorted by key.
func TagsOf(users, projects map[string]string) (tags []Tag) {
	all := maps.Clone(projects)
	for key, value := range users {
		if _, taken := projects[key]; !taken {
			all[key] = value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		tags = append(tags, Tag{key, all[key]})
	}
	return tags
}

// Aggregator reports whether the stack, once it has code, has the function that follows
// the stream.
func (s *Spec) Aggregator() bool {
	return s.o.Aggregator && (s.o.IAM || s.o.AggregatorRoleARN != "")
}

// Provisioner reports whether the stack, once it has code, has the function that handles
// the custom resource of limits.
func (s *Spec) Provisioner() bool {
	return s.o.Provisioner && (s.o.IAM || s.o.ProvisionerRoleARN != "")
}

// Notes returns sentences about what the stack leaves out although the options have it.
func (s *Spec) Notes() []string {
	var notes []string
	if s.o.Aggregator && !s.Aggregator() {
		notes = append(notes, "the stack has no aggregator: without IAM resources it needs an existing role, see --aggregator-role-arn")
	}
	if s.o.Provisioner && !s.Provisioner() {
		notes = append(notes, "the stack has no provisioner: without IAM resources it needs an existing role, see --provisioner-role-arn")
	}
	return notes
}

// AggregatorFunction is the name of the function that follows the stream.
func (s *Spec) AggregatorFunction() string { return s.o.Name + "-aggregator" }

// ProvisionerFunction is the name of the function that handles the custom resource.
func (s *Spec) ProvisionerFunction() string { return s.o.Name + "-limits-provisioner" }

// A Component is a part of the stack that has a role or a policy.
type Component string

// The components with roles, and those with policies.
const (
	AggregatorRole        Component = "aggr"
	ProvisionerRole       Component = "prov"
	AppRole               Component = "app"
	AdminRole             Component = "admin"
	ReadOnlyRole          Component = "read"
	NamespaceAppRole      Component = "ns-app"
	NamespaceAdminRole    Component = "ns-admin"
	NamespaceReadOnlyRole Component = "ns-read"

	AcquireOnlyPolicy         Component = "acq"
	FullAccessPolicy          Component = "full"
	ReadOnlyPolicy            Component = "read"
	NamespaceAcquirePolicy    Component = "ns-acq"
	NamespaceFullAccessPolicy Component = "ns-full"
	NamespaceReadOnlyPolicy   Component = "ns-read"
	// KeyPolicy is the use of the key that encrypts the table, where the options name one.
	KeyPolicy Component = "key"
)

// RoleName is the name of a component's role.
func (s *Spec) RoleName(c Component) string { return formatted(s.o.RoleNameFormat, s.o.Name, c) }

// PolicyName is the name of a component's policy.
func (s *Spec) PolicyName(c Component) string { return formatted(s.o.PolicyNameFormat, s.o.Name, c) }
