package loadstack

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/internal/parameter"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/fleet"
	"github.com/zeroae/zae-limiter-go/store"
)

// Bounds of options. Those of names and tasks are AWS's.
const (
	maxSubnets                           = 16
	minWorkerMemoryMB, maxWorkerMemoryMB = 128, 10240
	maxWorkers                           = 1000
	maxUsersPerWorker                    = 100_000
	maxRoleChars                         = 64
	// maxFileBytes leaves room for JSON below the 256 KB of an event of Lambda.
	maxFileBytes = 128 << 10

	// Memory of a task on Fargate.
	minMBPerCPU, maxMBPerCPU = 2, 8
	stepMB, maxTaskMB        = 1024, 30 * 1024
)

var (
	tableARN   = parameter.Pattern(`\Aarn:aws(-[a-z]+)*:dynamodb:[a-z0-9-]+:\d{12}:table/[\w.-]+\z`)
	policyARN  = parameter.Pattern(`\Aarn:aws(-[a-z]+)*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+\z`)
	namespace  = parameter.Pattern(`\A[A-Za-z0-9][\w.-]*\z`)
	namespaces = parameter.Pattern(`\A[\w-]{2,}\z`)
	vpcID      = parameter.Pattern(`\Avpc-[0-9a-f]{8,17}\z`)
	subnetID   = parameter.Pattern(`\Asubnet-[0-9a-f]{8,17}\z`)
	routeTable = parameter.Pattern(`\Artb-[0-9a-f]{8,17}\z`)
	imageName  = parameter.Pattern(`\A[a-z0-9][\w./:@-]{0,254}\z`)
	argument   = parameter.Pattern(`\A[\w./:,=-]+\z`)
	scenario   = parameter.Pattern(`\A[a-z0-9-]{1,64}\z`)
	bucketName = parameter.Pattern(`\A[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\z`)
)

func (o *Options) setDefaults() {
	o.Namespace, o.Image = cmp.Or(o.Namespace, DefaultNamespace), cmp.Or(o.Image, DefaultImage)
	o.CPU, o.MemoryMB = cmp.Or(o.CPU, defaultCPU), cmp.Or(o.MemoryMB, defaultMemoryMB)
	o.TaskArchitecture, o.Capacity = cmp.Or(o.TaskArchitecture, TaskAMD64), cmp.Or(o.Capacity, Fargate)
	o.Architecture = cmp.Or(o.Architecture, deploy.ARM64)
	o.WorkerMemoryMB, o.WorkerTimeout = cmp.Or(o.WorkerMemoryMB, defaultWorkerMemoryMB), cmp.Or(o.WorkerTimeout, DefaultTimeout)
	o.MinWorkers, o.MaxWorkers = cmp.Or(o.MinWorkers, defaultMinWorkers), cmp.Or(o.MaxWorkers, max(defaultMaxWorkers, o.MinWorkers))
	o.UsersPerWorker = cmp.Or(o.UsersPerWorker, defaultUsersPerWorker)
	o.LogRetentionDays = cmp.Or(o.LogRetentionDays, defaultLogRetentionDays)
	o.Version = cmp.Or(o.Version, "unknown")
}

// limiter are the options of a limiter's stack whose rules hold here, too.
func (o *Options) limiter() deploy.Options {
	l := deploy.Defaults()
	l.Name, l.CodeBucket, l.CodeKey, l.Architecture, l.LogRetentionDays = o.Limiter, o.CodeBucket, o.CodeKey, o.Architecture, o.LogRetentionDays
	l.PermissionBoundary, l.RoleNameFormat, l.Tags = o.PermissionBoundary, o.RoleNameFormat, o.Tags
	return l
}

// validate reports the first option that is not acceptable.
func (o *Options) validate() error {
	if o.Limiter == "" {
		return invalid("Limiter", "", "give the name of the limiter's stack")
	}
	if _, err := deploy.New(o.limiter()); err != nil {
		bad := (*store.ValidationError)(nil)
		if errors.As(err, &bad) && bad.Field == "Name" {
			return invalid("Limiter", bad.Value, bad.Reason)
		}
		return err
	}
	return cmp.Or(
		matches("TableARN", o.TableARN, tableARN, "give the ARN of the table, the output TableArn of the limiter's stack"),
		matches("Namespace", o.Namespace, namespace, "give letters, digits and \"_.-\", the first a letter or digit"),
		matches("NamespaceID", o.NamespaceID, namespaces, "give the ID of the namespace, which zae-limiter namespace show has"),
		unless("KeyPolicyARN", o.KeyPolicyARN, policyARN, "give the ARN of a policy, arn:aws:iam::ACCOUNT:policy/NAME"),
		o.validateNetwork(), o.validateMaster(), o.validateWorkers(), o.validateNames(),
	)
}

func (o *Options) validateNetwork() error {
	if err := matches("VPC", o.VPC, vpcID, "give the ID of a network, vpc-0123456789abcdef0 for instance"); err != nil {
		return err
	}
	if len(o.Subnets) == 0 || len(o.Subnets) > maxSubnets {
		return invalid("Subnets", strconv.Itoa(len(o.Subnets)), fmt.Sprintf("give 1 to %d subnets of the network", maxSubnets))
	}
	return cmp.Or(
		each("Subnets", o.Subnets, subnetID, "give the IDs of subnets, subnet-0123456789abcdef0 for instance"),
		each("RouteTables", o.RouteTables, routeTable, "give the IDs of route tables, rtb-0123456789abcdef0 for instance"),
		o.validateWayOut(),
	)
}

// validateWayOut refuses a network from which no image can be fetched in any case.
func (o *Options) validateWayOut() error {
	if o.PrivateEndpoints && len(o.RouteTables) == 0 {
		return invalid("PrivateEndpoints", "true", "name the route tables of the subnets, too: without a way out, DynamoDB and the layers of images need gateway endpoints")
	}
	if host, _, ok := strings.Cut(o.Image, "/"); o.PrivateEndpoints && !o.PublicIP && (!ok || !strings.Contains(host, ".dkr.ecr.")) {
		return invalid("Image", o.Image, "without a way out, only images in ECR can be fetched: copy the image there, ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME:TAG")
	}
	return nil
}

func (o *Options) validateMaster() error {
	if len(o.Locustfile) == 0 && len(o.Classes) == 0 {
		return invalid("Locustfile", "", "give a locustfile, or the classes of users of a scenario")
	}
	for _, c := range o.Classes {
		if !class().MatchString(c.Name) || c.Weight < 1 {
			return invalid("Classes", c.Name, "give each class a name of letters, digits and \"_.-\", and a weight of at least 1; or give a locustfile")
		}
	}
	for _, a := range o.Arguments {
		if !argument().MatchString(a) || strings.HasPrefix(a, "--worker") || a == "--headless" || strings.HasPrefix(a, "--web-port") || strings.HasPrefix(a, "--master-bind") {
			return invalid("Arguments", a, "give arguments of Locust of letters, digits and \"_./:,=-\", besides those for master, ports and web page")
		}
	}
	return cmp.Or(
		matches("Image", o.Image, imageName, "give an image, locustio/locust:2.47.0 for instance"),
		among("TaskArchitecture", o.TaskArchitecture, TaskAMD64, TaskARM64),
		among("Capacity", o.Capacity, Fargate, Spot), o.validateSize(),
	)
}

// validateSize accepts the sizes that Fargate has.
func (o *Options) validateSize() error {
	if !slices.Contains([]int{256, 512, 1024, 2048, 4096}, o.CPU) {
		return invalid("CPU", strconv.Itoa(o.CPU), "give 256, 512, 1024, 2048 or 4096; 1024 is one processor")
	}
	least, most := o.CPU*minMBPerCPU, min(o.CPU*maxMBPerCPU, maxTaskMB)
	if o.MemoryMB < least || o.MemoryMB > most || o.MemoryMB != least && o.MemoryMB%stepMB != 0 {
		return invalid("MemoryMB", strconv.Itoa(o.MemoryMB), fmt.Sprintf("for this CPU, Fargate has %d to %d, in steps of %d", least, most, stepMB))
	}
	return nil
}

func (o *Options) validateWorkers() error {
	if err := matches("CodeBucket", o.CodeBucket, bucketName, "give the name of a bucket for the code: the limiter's stack has one only with functions"); err != nil {
		return err
	}
	switch {
	case o.CodeKey == "":
		return invalid("CodeKey", "", "give the key of the zip, as lambda-export --info shows it")
	case (o.Scenario == "") == (len(o.File) == 0):
		return invalid("Scenario", o.Scenario, "give either the name of a scenario or a file")
	case o.Scenario != "" && !scenario().MatchString(o.Scenario):
		return invalid("Scenario", o.Scenario, "give the name of a scenario of the program")
	case o.WorkerTimeout < fleet.MinTimeout || o.WorkerTimeout > DefaultTimeout || o.WorkerTimeout%time.Second != 0:
		return invalid("WorkerTimeout", o.WorkerTimeout.String(), fmt.Sprintf("give whole seconds from %v to %v: a worker and its replacement need that time, and Lambda has no more", fleet.MinTimeout, DefaultTimeout))
	case len(o.File) > maxFileBytes:
		return invalid("File", fmt.Sprintf("%d bytes", len(o.File)), fmt.Sprintf("give at most %d bytes: the file is part of the event of each worker", maxFileBytes))
	case o.FargateWorkers > 0 && o.WorkerImage == "":
		return invalid("WorkerImage", "", "workers on Fargate need an image whose entry point is this program")
	case o.WorkerImage != "" && len(o.File) > 0:
		return invalid("WorkerImage", o.WorkerImage, "workers on Fargate carry out scenarios of the program only: give the name of one, or no image")
	}
	return cmp.Or(
		unless("WorkerImage", o.WorkerImage, imageName, "give an image whose entry point is this program"),
		between("WorkerMemoryMB", o.WorkerMemoryMB, minWorkerMemoryMB, maxWorkerMemoryMB),
		between("MinWorkers", o.MinWorkers, 1, maxWorkers), between("MaxWorkers", o.MaxWorkers, o.MinWorkers, maxWorkers),
		between("UsersPerWorker", o.UsersPerWorker, 1, maxUsersPerWorker), between("FargateWorkers", o.FargateWorkers, 0, maxWorkers),
	)
}

// validateNames checks the lengths of the names that the format gives.
func (o *Options) validateNames() error {
	for _, c := range []string{"exec", "master", "worker", "orch"} {
		name := strings.Replace(cmp.Or(o.RoleNameFormat, "{}"), "{}", o.Limiter+suffix+"-"+c, 1)
		if over := len(name) - maxRoleChars; over > 0 {
			return invalid("RoleNameFormat", o.RoleNameFormat, fmt.Sprintf("it makes %s, which is %d characters too long: give a shorter format", name, over))
		}
	}
	return nil
}

func between(field string, n, least, most int) error {
	if n >= least && n <= most {
		return nil
	}
	return invalid(field, strconv.Itoa(n), fmt.Sprintf("give %d to %d", least, most))
}

func among[T ~string](field string, value, one, other T) error {
	if value == one || value == other {
		return nil
	}
	return invalid(field, string(value), "choose from "+string(one)+", "+string(other))
}

// matches checks a value that must be given.
func matches(field, value string, pattern func() *regexp.Regexp, rule string) error {
	if pattern().MatchString(value) {
		return nil
	}
	return invalid(field, value, rule)
}

// unless checks a value that may be empty.
func unless(field, value string, pattern func() *regexp.Regexp, rule string) error {
	if value == "" {
		return nil
	}
	return matches(field, value, pattern, rule)
}

func each(field string, values []string, pattern func() *regexp.Regexp, rule string) error {
	for _, v := range values {
		if err := matches(field, v, pattern, rule); err != nil {
			return err
		}
	}
	return nil
}

func invalid(field, value, reason string) error {
	return &store.ValidationError{Field: field, Value: value, Reason: reason}
}
