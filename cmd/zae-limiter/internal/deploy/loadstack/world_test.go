package loadstack_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/loadstack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/cfntest"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// least are the options that are required.
func least() loadstack.Options {
	o := loadstack.Defaults()
	o.Limiter, o.TableARN, o.NamespaceID = "limits", "arn:aws:dynamodb:eu-central-1:123456789012:table/limits", "ns1"
	o.VPC, o.Subnets = "vpc-0123456789abcdef0", []string{"subnet-0123456789abcdef0", "subnet-0123456789abcdef1"}
	o.CodeBucket, o.CodeKey, o.Scenario, o.Classes = "limits-code", "functions/0.zip", "simple", []loadstack.Class{{Name: "Users", Weight: 3}}
	return o
}

// widest has every resource, and a value for every option.
func widest() loadstack.Options {
	o := least()
	o.Namespace, o.KeyPolicyARN = "drill", "arn:aws:iam::123456789012:policy/limits-key"
	o.RouteTables, o.PublicIP, o.PrivateEndpoints = []string{"rtb-0123456789abcdef0", "rtb-0123456789abcdef1"}, true, true
	o.Image, o.Arguments = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/locust:2.47.0", []string{"--loglevel", "DEBUG"}
	o.Locustfile, o.Classes = []byte("from locust import User\n"), nil
	o.CPU, o.MemoryMB, o.TaskArchitecture, o.Capacity = 512, 4096, loadstack.TaskARM64, loadstack.Spot
	o.Architecture, o.WorkerMemoryMB, o.WorkerTimeout = deploy.AMD64, 512, 10*time.Minute
	o.MinWorkers, o.MaxWorkers, o.UsersPerWorker = 2, 50, 40
	o.WorkerImage, o.FargateWorkers = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/zae-limiter:1", 3
	o.LogRetentionDays, o.PermissionBoundary, o.RoleNameFormat = 30, "edge", "team-{}-role"
	o.Tags, o.Version = map[string]string{"team": "core"}, "v1.2.3"
	return o
}

// ownFile has a scenario of a user.
func ownFile() loadstack.Options {
	o := least()
	o.Scenario, o.File = "", []byte("name: mine\n")
	return o
}

// off has nothing that runs.
func off() loadstack.Options {
	o := widest()
	o.Off, o.PermissionBoundary = true, "arn:aws:iam::aws:policy/edge"
	return o
}

// shapes are options that together have every branch of the template.
func shapes() map[string]loadstack.Options {
	return map[string]loadstack.Options{"least": least(), "widest": widest(), "own file": ownFile(), "off": off()}
}

func newSpec(t *testing.T, o loadstack.Options) *loadstack.Spec {
	t.Helper()
	spec, err := loadstack.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// A world is one account with a manager of stacks for load tests, in a bubble.
type world struct {
	*testing.T
	*stack.Manager
	cloud *cfntest.Cloud
}

// inWorld runs a test in a bubble, where waiting takes no time.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := dynamolite.New(dynamolite.Options{})
		defer engine.Close()
		cloud := cfntest.New(cfntest.Options{Now: time.Now, Step: 7 * time.Second, LateChangeSets: true, Tables: engine, Page: 5})
		cloud.AddBucket("limits-code")
		m, err := stack.New(stack.Options{Type: stack.TypeLoadTest, Clients: stack.Clients{
			CloudFormation: cloud, Buckets: cloud, Functions: cloud, Tagging: cloud, Database: engine,
		}})
		if err != nil {
			t.Fatal(err)
		}
		test(&world{t, m, cloud})
	})
}

// rollout is a deployment of options.
func (w *world) rollout(o loadstack.Options) stack.Rollout {
	w.Helper()
	spec := newSpec(w.T, o)
	r := stack.Rollout{
		Spec: stack.Spec{Name: spec.Name(), Template: string(spec.Template()), Parameters: map[string]string{}, Tags: map[string]string{}},
		Code: &stack.Code{Bucket: o.CodeBucket, Key: o.CodeKey, Zip: []byte("a zip")},
	}
	for _, p := range spec.Parameters() {
		r.Parameters[p.Key] = p.Value
	}
	for _, t := range spec.Tags() {
		r.Tags[t.Key] = t.Value
	}
	return r
}

// deploy deploys options, and fails the test if that fails.
func (w *world) deploy(o loadstack.Options) stack.Outcome {
	w.Helper()
	out, err := w.Deploy(w.Context(), w.rollout(o))
	if err != nil {
		w.Fatal(err)
	}
	return out
}

// property is a property of a resource.
func (w *world) property(resource, name string) any {
	w.Helper()
	p := w.cloud.Properties("limits-load", resource)
	if p == nil {
		w.Fatalf("the stack has no %s", resource)
	}
	return p[name]
}

// ofType are the resources of a type.
func (w *world) ofType(kind string) (ids []string) {
	w.Helper()
	all, err := w.Resources(w.Context(), "limits-load")
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range all {
		if r.Type == kind {
			ids = append(ids, r.LogicalID)
		}
	}
	slices.Sort(ids)
	return ids
}
