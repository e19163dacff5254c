package loadstack

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/option"
	"github.com/zeroae/zae-limiter-go/store"
)

// Bounds of options. Those of names and tasks are AWS's.
const (
	maxSubnets   = 16
	maxWorkers   = 1000
	maxRoleChars = 64
	// maxFileBytes leaves room for JSON below the 256 KB of an event of Lambda.
	maxFileBytes = 128 << 10

	// Memory of a task on Fargate.
	minMBPerCPU, maxMBPerCPU = 2, 8
	stepMB, maxTaskMB        = 1024, 30 * 1024
)

// limiter are the options of a limiter's stack whose rules hold here, too.
func (o *Options) limiter() deploy.Options {
	l := deploy.Defaults()
	l.Name, l.CodeBucket, l.CodeKey, l.Architecture, l.LogRetentionDays = o.Limiter, o.CodeBucket, o.CodeKey, o.Architecture, o.LogRetentionDays
	l.PermissionBoundary, l.RoleNameFormat, l.Tags = o.PermissionBoundary, o.RoleNameFormat, o.Tags
	return l
}

// checkLimiter checks the options that the limiter's stack has, too.
func (o *Options) checkLimiter() error {
	_, err := deploy.New(o.limiter())
	bad := (*store.ValidationError)(nil)
	switch {
	case o.Limiter == "":
		return invalid("Limiter", "", "give the name of the limiter's stack")
	case errors.As(err, &bad) && bad.Field == "Name":
		return invalid("Limiter", bad.Value, bad.Reason)
	}
	return err
}

func (o *Options) checkSubnets() error {
	if len(o.Subnets) == 0 || len(o.Subnets) > maxSubnets {
		return invalid("Subnets", strconv.Itoa(len(o.Subnets)), fmt.Sprintf("give 1 to %d subnets of the network", maxSubnets))
	}
	return nil
}

func (o *Options) checkEndpoints() error {
	if o.PrivateEndpoints && len(o.RouteTables) == 0 {
		return invalid("PrivateEndpoints", "true", "name the route tables of the subnets, too: without a way out, DynamoDB and the layers of images need gateway endpoints")
	}
	return nil
}

// checkImage refuses an image that cannot be fetched from the network in any case.
func (o *Options) checkImage() error {
	if host, _, ok := strings.Cut(o.Image, "/"); o.PrivateEndpoints && !o.PublicIP && (!ok || !strings.Contains(host, ".dkr.ecr.")) {
		return invalid("Image", o.Image, "without a way out, only images in ECR can be fetched: copy the image there, ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME:TAG")
	}
	return nil
}

func (o *Options) checkLocustfile() error {
	if len(o.Locustfile) == 0 && len(o.Classes) == 0 {
		return invalid("Locustfile", "", "give a locustfile, or the classes of users of a scenario")
	}
	return nil
}

func (o *Options) checkClasses() error {
	for _, c := range o.Classes {
		if !class().MatchString(c.Name) || c.Weight < 1 {
			return invalid("Classes", c.Name, "give each class a name of letters, digits and \"_.-\", and a weight of at least 1; or give a locustfile")
		}
	}
	return nil
}

func (o *Options) checkArguments() error {
	for _, a := range o.Arguments {
		if strings.HasPrefix(a, "--worker") || a == "--headless" || strings.HasPrefix(a, "--web-port") || strings.HasPrefix(a, "--master-bind") {
			return invalid("Arguments", a, argumentRule)
		}
	}
	return nil
}

// checkMemory accepts the sizes that Fargate has for the CPU.
func (o *Options) checkMemory() error {
	least, most := o.CPU*minMBPerCPU, min(o.CPU*maxMBPerCPU, maxTaskMB)
	if o.MemoryMB < least || o.MemoryMB > most || o.MemoryMB != least && o.MemoryMB%stepMB != 0 {
		return invalid("MemoryMB", strconv.Itoa(o.MemoryMB), fmt.Sprintf("for this CPU, Fargate has %d to %d, in steps of %d", least, most, stepMB))
	}
	return nil
}

func (o *Options) checkScenario() error {
	if (o.Scenario == "") == (len(o.File) == 0) {
		return invalid("Scenario", o.Scenario, "give either the name of a scenario or a file")
	}
	return nil
}

func (o *Options) checkFile() error {
	if len(o.File) > maxFileBytes {
		return invalid("File", fmt.Sprintf("%d bytes", len(o.File)), fmt.Sprintf("give at most %d bytes: the file is part of the event of each worker", maxFileBytes))
	}
	return nil
}

func (o *Options) checkMaxWorkers() error {
	if o.MaxWorkers < o.MinWorkers {
		return invalid("MaxWorkers", strconv.Itoa(o.MaxWorkers), fmt.Sprintf("give %d to %d", o.MinWorkers, maxWorkers))
	}
	return nil
}

func (o *Options) checkWorkerImage() error {
	switch {
	case o.FargateWorkers > 0 && o.WorkerImage == "":
		return invalid("WorkerImage", "", "workers on Fargate need an image whose entry point is this program")
	case o.WorkerImage != "" && len(o.File) > 0:
		return invalid("WorkerImage", o.WorkerImage, "workers on Fargate carry out scenarios of the program only: give the name of one, or no image")
	}
	return nil
}

// checkNames checks the lengths of the names that the format gives.
func (o *Options) checkNames() error {
	for _, c := range []string{"exec", "master", "worker", "orch"} {
		name := strings.Replace(cmp.Or(o.RoleNameFormat, option.Placeholder), option.Placeholder, o.Limiter+suffix+"-"+c, 1)
		if over := len(name) - maxRoleChars; over > 0 {
			return invalid("RoleNameFormat", o.RoleNameFormat, fmt.Sprintf("it makes %s, which is %d characters too long: give a shorter format", name, over))
		}
	}
	return nil
}

func invalid(field, value, reason string) error {
	return &store.ValidationError{Field: field, Value: value, Reason: reason}
}
