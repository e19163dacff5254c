package loadstack

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/option"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/fleet"
)

var (
	tableARN    = option.Pattern(`\Aarn:aws(-[a-z]+)*:dynamodb:[a-z0-9-]+:\d{12}:table/[\w.-]+\z`)
	policyARN   = option.Pattern(`\Aarn:aws(-[a-z]+)*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+\z`)
	namespace   = option.Pattern(`\A[A-Za-z0-9][\w.-]*\z`)
	namespaceID = option.Pattern(`\A[\w-]{2,}\z`)
	vpcID       = option.Pattern(`\Avpc-[0-9a-f]{8,17}\z`)
	subnetID    = option.Pattern(`\Asubnet-[0-9a-f]{8,17}\z`)
	routeTable  = option.Pattern(`\Artb-[0-9a-f]{8,17}\z`)
	imageName   = option.Pattern(`\A[a-z0-9][\w./:@-]{0,254}\z`)
	argument    = option.Pattern(`\A[\w./:,=-]+\z`)
	scenario    = option.Pattern(`\A[a-z0-9-]{1,64}\z`)
	bucketName  = option.Pattern(`\A[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\z`)
)

const argumentRule = "give arguments of Locust of letters, digits and \"_./:,=-\", besides those for master, ports and web page"

var timeoutRule = fmt.Sprintf("give whole seconds from %v to %v: a worker and its replacement need that time, and Lambda has no more", fleet.MinTimeout, DefaultTimeout)

// OptionTable has the options of a stack, and the parameters of the template in its order.
// [New] checks what the limiter's stack has, too, by the table of that.
var OptionTable = option.Table[Options]{
	// The limiter under test
	{Name: "Limiter", Of: func(o *Options) any { return &o.Limiter }, Parameter: "TableName", Required: true, Flag: "name"},
	{
		Name: "TableARN", Of: func(o *Options) any { return &o.TableARN }, Parameter: "TableArn", Required: true,
		Pattern: tableARN, Rule: "give the ARN of the table, the output TableArn of the limiter's stack",
	},
	{
		Name: "Namespace", Of: func(o *Options) any { return &o.Namespace }, Parameter: "Namespace", Default: "loadtest", Required: true,
		Pattern: namespace, Rule: `give letters, digits and "_.-", the first a letter or digit`,
	},
	{
		Name: "NamespaceID", Of: func(o *Options) any { return &o.NamespaceID }, Parameter: "NamespaceId", Required: true,
		Pattern: namespaceID, Rule: "give the ID of the namespace, which zae-limiter namespace show has",
	},
	{
		Name: "KeyPolicyARN", Of: func(o *Options) any { return &o.KeyPolicyARN }, Parameter: "KeyPolicyArn",
		Pattern: policyARN, Rule: "give the ARN of a policy, arn:aws:iam::ACCOUNT:policy/NAME",
	},

	// The network
	{
		Name: "VPC", Of: func(o *Options) any { return &o.VPC }, Parameter: "VpcId", Required: true,
		Pattern: vpcID, Rule: "give the ID of a network, vpc-0123456789abcdef0 for instance",
		Flag: "vpc-id", Text: "`ID` of the network; a new stack needs it",
	},
	{
		Name: "Subnets", Of: func(o *Options) any { return &o.Subnets }, Parameter: "SubnetIds", Required: true,
		Pattern: subnetID, Rule: "give the IDs of subnets, subnet-0123456789abcdef0 for instance", Check: (*Options).checkSubnets,
		Flag: "subnet-ids", Text: "`IDs` of the subnets of master and workers; a new stack needs them",
	},
	{
		Name: "RouteTables", Of: func(o *Options) any { return &o.RouteTables }, Parameter: "RouteTableIds",
		Pattern: routeTable, Rule: "give the IDs of route tables, rtb-0123456789abcdef0 for instance",
		Flag: "route-table-ids", Text: "`IDs` of the route tables that get an endpoint of DynamoDB; workers in subnets without a way out need it (default no endpoint)",
	},
	{
		Name: "PublicIP", Of: func(o *Options) any { return &o.PublicIP }, Parameter: "AssignPublicIp", Default: "DISABLED",
		Values: []string{"DISABLED", "ENABLED"},
		Flag:   "public-ip", Text: "give the tasks public addresses, to fetch their images; nothing can connect to them",
	},
	{
		Name: "PrivateEndpoints", Of: func(o *Options) any { return &o.PrivateEndpoints }, Parameter: "PrivateEndpoints", Default: "false",
		Check: (*Options).checkEndpoints,
		Flag:  "private-endpoints", Text: "make interface endpoints for subnets without a way out",
	},

	// The master
	{
		Name: "Off", Of: func(o *Options) any { return &o.Off }, Parameter: "MasterCount", Default: "1",
		Values: []string{"1", "0"},
		Flag:   "off", Text: "stop master, orchestrator and workers; --off=false starts them again",
	},
	{
		Name: "Image", Of: func(o *Options) any { return &o.Image }, Parameter: "LocustImage", Default: "locustio/locust:2.47.0",
		Pattern: imageName, Rule: "give an image, locustio/locust:2.47.0 for instance", Check: (*Options).checkImage,
		Flag: "image", Text: "`image` of Locust {default}",
	},
	{
		Name: "Arguments", Of: func(o *Options) any { return &o.Arguments }, Parameter: "LocustArguments",
		Get: func(o *Options) string { return strings.Join(o.Arguments, " ") }, Set: func(o *Options, v string) error { o.Arguments = strings.Split(v, " "); return nil },
		Pattern: argument, Rule: argumentRule, Check: (*Options).checkArguments,
		Flag: "locust-arguments", Text: "more `arguments` of the master, with commas between them",
	},
	{
		Name: "Locustfile", Of: func(o *Options) any { return &o.Locustfile }, Parameter: "Locustfile", Required: true,
		Get: packed((*Options).locustfile), Set: unpacked((*Options).locustfile), Check: (*Options).checkLocustfile,
		Flag: "locustfile",
	},
	{Name: "Classes", Of: func(o *Options) any { return &o.Classes }, Check: (*Options).checkClasses, Flag: "scenario"},
	{
		Name: "CPU", Of: func(o *Options) any { return &o.CPU }, Parameter: "TaskCpu", Default: "1024",
		Values: []string{"256", "512", "1024", "2048", "4096"}, Rule: "give 256, 512, 1024, 2048 or 4096; 1024 is one processor",
		Flag: "cpu", Text: "`units` of CPU of a task, 1024 are a processor {default}",
	},
	{
		Name: "MemoryMB", Of: func(o *Options) any { return &o.MemoryMB }, Parameter: "TaskMemory", Default: "2048",
		Min: 512, Max: maxTaskMB, Check: (*Options).checkMemory,
		Flag: "memory", Text: "memory of a task in `MB` {default}",
	},
	{
		Name: "TaskArchitecture", Of: func(o *Options) any { return (*string)(&o.TaskArchitecture) }, Parameter: "TaskArchitecture", Default: string(TaskAMD64),
		Values: []string{string(TaskAMD64), string(TaskARM64)}, Words: []string{"amd64", "arm64"},
		Flag: "task-arch", Text: "processors of the tasks; the images must be for them {default}",
	},
	{
		Name: "Capacity", Of: func(o *Options) any { return (*string)(&o.Capacity) }, Parameter: "CapacityProvider", Default: string(Fargate),
		Values: []string{string(Fargate), string(Spot)}, Words: []string{string(Fargate), string(Spot)},
		Flag: "capacity-provider", Text: "where the tasks run; FARGATE_SPOT costs less, and AWS may end the master, which loses its statistics {default}",
	},

	// The workers
	{
		Name: "CodeBucket", Of: func(o *Options) any { return &o.CodeBucket }, Parameter: "CodeBucket", Required: true,
		Pattern: bucketName, Rule: "give the name of a bucket for the code: the limiter's stack has one only with functions",
		Flag: "code-bucket", Text: "name of the `bucket` for the code (default that of the limiter's stack)",
	},
	{
		Name: "CodeKey", Of: func(o *Options) any { return &o.CodeKey }, Parameter: "CodeKey", Required: true,
		Pattern: option.Pattern(`.`), Rule: "give the key of the zip, as lambda-export --info shows it",
	},
	{
		Name: "Architecture", Of: func(o *Options) any { return (*string)(&o.Architecture) }, Parameter: "Architecture", Default: string(deploy.ARM64),
		Values: []string{string(deploy.ARM64), string(deploy.AMD64)},
	},
	{
		Name: "Scenario", Of: func(o *Options) any { return &o.Scenario }, Parameter: "Scenario",
		Pattern: scenario, Rule: "give the name of a scenario of the program", Check: (*Options).checkScenario,
		Flag: "scenario",
	},
	{
		Name: "File", Of: func(o *Options) any { return &o.File }, Parameter: "ScenarioFile",
		Get: packed((*Options).file), Set: unpacked((*Options).file), Check: (*Options).checkFile,
		Flag: "file",
	},
	{
		Name: "WorkerMemoryMB", Of: func(o *Options) any { return &o.WorkerMemoryMB }, Parameter: "WorkerMemorySize", Default: "1769",
		Min: 128, Max: 10240,
		Flag: "worker-memory", Text: "memory of a worker in `MB`; 1769 is one processor {default}",
	},
	{
		Name: "WorkerTimeout", Of: func(o *Options) any { return &o.WorkerTimeout }, Parameter: "WorkerTimeout", Default: "900",
		Min: int(fleet.MinTimeout / time.Second), Max: int(DefaultTimeout / time.Second), Rule: timeoutRule,
		Flag: "worker-timeout", Text: "`time` after which a worker is replaced, {bounds} {default}",
	},
	{
		Name: "MinWorkers", Of: func(o *Options) any { return &o.MinWorkers }, Parameter: "MinWorkers", Default: "1",
		Min: 1, Max: maxWorkers,
		Flag: "min-workers", Text: "least `number` of workers on Lambda {default}",
	},
	{
		Name: "MaxWorkers", Of: func(o *Options) any { return &o.MaxWorkers }, Parameter: "MaxWorkers", Default: "100",
		Min: 1, Max: maxWorkers, Check: (*Options).checkMaxWorkers,
		Flag: "max-workers", Text: "most `number` of workers on Lambda that carry load {default}",
	},
	{Parameter: "WorkerConcurrency", Default: "125", Get: func(o *Options) string { return strconv.Itoa((&Spec{*o}).Concurrency()) }},
	{
		Name: "UsersPerWorker", Of: func(o *Options) any { return &o.UsersPerWorker }, Parameter: "UsersPerWorker", Default: "10",
		Min: 1, Max: 100_000,
		Flag: "users-per-worker", Text: "`number` of users that a worker carries {default}",
	},
	{
		Name: "WorkerImage", Of: func(o *Options) any { return &o.WorkerImage }, Parameter: "WorkerImage",
		Pattern: imageName, Rule: "give an image whose entry point is this program", Check: (*Options).checkWorkerImage,
		Flag: "worker-image", Text: "`image` whose entry point is this program, for workers on Fargate",
	},
	{
		Name: "FargateWorkers", Of: func(o *Options) any { return &o.FargateWorkers }, Parameter: "FargateWorkers", Default: "0",
		Max:  maxWorkers,
		Flag: "fargate-workers", Text: "`number` of workers on Fargate {default}",
	},

	// The rest
	{
		Name: "LogRetentionDays", Of: func(o *Options) any { return &o.LogRetentionDays }, Parameter: "LogRetentionDays", Default: "7",
		Values: deploy.LogRetentions, Rule: deploy.LogRetentionRule,
		Flag: "log-retention-days", Text: "`days` for which logs are kept {default}",
	},
	{
		Name: "PermissionBoundary", Of: func(o *Options) any { return &o.PermissionBoundary }, Parameter: "PermissionBoundary",
		Flag: "permission-boundary", Text: "`policy`, by name or ARN, that bounds every role (default that of the limiter's stack)",
	},
	{
		Name: "RoleNameFormat", Of: func(o *Options) any { return &o.RoleNameFormat },
		Check: (*Options).checkNames,
		Flag:  "role-name-format", Text: "`format` of the names of roles, team-{} for instance (default that of the limiter's stack)",
	},
	option.Prefix("RoleNamePrefix", func(o *Options) *string { return &o.RoleNameFormat }),
	option.Suffix("RoleNameSuffix", func(o *Options) *string { return &o.RoleNameFormat }),
	{Name: "Tags", Of: func(o *Options) any { return &o.Tags }, Flag: "tag", Text: "`KEY=VALUE` of a tag of the stack; repeat the flag for more, up to 44"},
}

func (o *Options) locustfile() *[]byte { return &o.Locustfile }
func (o *Options) file() *[]byte       { return &o.File }

// packed writes a text of a user as its parameter, and unpacked reads it.
func packed(text func(*Options) *[]byte) func(*Options) string {
	return func(o *Options) string { value, _ := pack(*text(o)); return value } // New has packed it before
}

func unpacked(text func(*Options) *[]byte) func(*Options, string) error {
	return func(o *Options, v string) (err error) { *text(o), err = Unpack(v); return err }
}
