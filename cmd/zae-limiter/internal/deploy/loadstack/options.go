package loadstack

import (
	"maps"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
)

// DefaultTimeout is the default of Options.WorkerTimeout, Lambda's longest.
const DefaultTimeout = 15 * time.Minute

// A Capacity is where the tasks run, in the words of ECS.
type Capacity string

// The values of [Capacity].
const (
	// Fargate runs a task until it ends.
	Fargate Capacity = "FARGATE"
	// Spot costs less. AWS may end a task with a warning of two minutes; a master loses the
	// statistics of the test then.
	Spot Capacity = "FARGATE_SPOT"
)

// A TaskArchitecture is that of the tasks' processors, in the words of ECS.
type TaskArchitecture string

// The values of [TaskArchitecture].
const (
	TaskAMD64 TaskArchitecture = "X86_64"
	TaskARM64 TaskArchitecture = "ARM64"
)

// A Class is a class of users: its name, and its weight among the others.
type Class struct {
	Name   string
	Weight int
}

// Options describe a stack. [Defaults] makes them. [OptionTable] says of each what it is, and has
// its default and bounds; the comments here say what the table does not. Limiter, TableARN,
// NamespaceID, VPC, Subnets, CodeBucket, CodeKey, and either Classes or Locustfile are required.
type Options struct {
	Limiter                string // the name of the limiter's stack and of its table
	TableARN               string
	Namespace, NamespaceID string // where the load runs
	KeyPolicyARN           string // for the use of the table's key; "" if AWS owns the key

	VPC         string
	Subnets     []string
	RouteTables []string // they get the gateway endpoint of DynamoDB; nil makes no endpoint
	PublicIP    bool     // nothing outside can connect to the addresses
	// PrivateEndpoints are of the services that master and orchestrator call. Each costs by
	// the hour.
	PrivateEndpoints bool

	Off       bool // stops master, orchestrator and workers, and leaves the rest
	Image     string
	Arguments []string
	// Locustfile is what the master runs, at most 4,096 characters as a parameter; nil makes
	// one from Classes. It has the classes of users by their names, without the load: the
	// workers have that.
	Locustfile       []byte
	Classes          []Class
	CPU, MemoryMB    int // of a task, in sizes that Fargate has
	TaskArchitecture TaskArchitecture
	Capacity         Capacity

	CodeBucket, CodeKey string // where the zip of the functions is
	Architecture        deploy.Architecture
	Scenario            string
	// File is the text of a scenario of a user, instead of Scenario: at most 128 KB, and 3,000
	// characters as a parameter.
	File           []byte
	WorkerMemoryMB int
	WorkerTimeout  time.Duration
	// More workers than MaxWorkers exist while they are replaced: see [Spec.Concurrency].
	MinWorkers, MaxWorkers int
	UsersPerWorker         int
	WorkerImage            string // for FargateWorkers workers on Fargate; "" has none
	FargateWorkers         int

	LogRetentionDays   int
	PermissionBoundary string            // the name or ARN of a policy
	RoleNameFormat     string            // exactly one {} stands for the name; "" is {}
	Tags               map[string]string // the user's, at most 44
	Version            string            // of this program, for the tags; "" is unknown
}

// Defaults are the options of a stack that nobody says anything about.
func Defaults() Options {
	var o Options
	OptionTable.SetDefaults(&o)
	return o
}

// OptionsOf reads the options of a limiter's stack for load tests back from its parameters,
// so that an update can keep what it does not change. A parameter that the stack does not
// have keeps its default, and a parameter that this version does not know is ignored: stacks
// of the Python package have some. Tags and version are not in the parameters. A value that
// cannot be read gives a [*store.ValidationError].
func OptionsOf(limiter string, has map[string]string) (Options, error) {
	o := Defaults()
	err := OptionTable.Read(has, &o)
	o.Limiter = limiter
	return o, err
}

// Outputs of a limiter's stack that a load test's needs.
const (
	outputTableARN  = "TableArn"
	outputKeyPolicy = "KeyPolicyArn"
	outputBucket    = "CodeBucketName"
	outputBoundary  = "PermissionBoundaryArn"
	outputFormat    = "RoleNameFormat"
)

// Adopt takes from the outputs of the limiter's stack what is not set: the table, the policy
// for its key, the bucket for code, the boundary of permissions and the format of the names
// of roles. The stack has a bucket only with functions, a policy only with a key of its own,
// and a boundary only if it was given one. An empty format is none: stacks of the Python
// package have that.
func (o *Options) Adopt(outputs map[string]string) {
	for output, field := range map[string]*string{
		outputTableARN: &o.TableARN, outputKeyPolicy: &o.KeyPolicyARN, outputBucket: &o.CodeBucket,
		outputBoundary: &o.PermissionBoundary, outputFormat: &o.RoleNameFormat,
	} {
		if *field == "" {
			*field = outputs[output]
		}
	}
}

// clone copies what the options share with the caller.
func (o *Options) clone() Options {
	c := *o
	c.Subnets, c.RouteTables, c.Arguments = slices.Clone(o.Subnets), slices.Clone(o.RouteTables), slices.Clone(o.Arguments)
	c.Locustfile, c.Classes, c.File, c.Tags = slices.Clone(o.Locustfile), slices.Clone(o.Classes), slices.Clone(o.File), maps.Clone(o.Tags)
	return c
}
