package stack

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Stack is a stack as CloudFormation describes it.
type Stack struct {
	Name, ID         string
	Status           string // CREATE_COMPLETE for example
	Reason           string // for the status; may be ""
	Created, Updated time.Time
	Parameters       map[string]string
	Outputs          map[string]string
	Tags             map[string]string
	// Protected says that termination protection is on.
	Protected bool
}

// Running reports whether an operation runs on the stack.
func (s *Stack) Running() bool { return isRunning(s.Status) }

// Healthy reports whether the last operation on the stack did what it was asked.
func (s *Stack) Healthy() bool { return isSuccess(s.Status) }

// UserName is the name that users know: the name tag, else the name without the prefix of
// early versions.
func (s *Stack) UserName() string {
	return cmp.Or(s.Tags[TagName], strings.TrimPrefix(s.Name, LegacyPrefix))
}

// isOf reports whether the stack is of a type, from this program or the Python package.
func (s *Stack) isOf(kind string) bool {
	if t := s.Tags[TagType]; t != kind && (t != "" || kind != TypeLimiter) {
		return false
	}
	return s.Tags[TagManagedBy] == ManagedBy || kind == TypeLimiter && strings.HasPrefix(s.Name, LegacyPrefix)
}

// checkOwn fails if a stack is of something else than the manager operates: an update or a
// deletion would destroy it. A stack without tags may come from the template of a limiter,
// which has the table.
func (m *Manager) checkOwn(s *Stack, resources []Resource) error {
	live := slices.DeleteFunc(slices.Clone(resources), func(r Resource) bool { return r.Status == string(types.ResourceStatusDeleteComplete) })
	if s.isOf(m.o.Type) || len(live) == 0 {
		return nil
	}
	if m.o.Type == TypeLoadTest {
		return &store.ValidationError{Field: "stack", Value: s.Name, Reason: "it is not for load tests, its tag " + TagType + " is not " + TypeLoadTest + ": delete it by other means, or choose another limiter"}
	}
	if slices.ContainsFunc(live, func(r Resource) bool { return r.LogicalID == TableID && r.Type == typeTable }) {
		return nil
	}
	return &store.ValidationError{Field: "stack", Value: s.Name, Reason: "it is not of a limiter, it has neither the tags nor a table " + TableID + ": choose another name"}
}

// A TagDrift is a tag of a stack that differs from the wanted one.
type TagDrift struct{ Key, Has, Want string }

// TagDrift compares the stack's tags with the wanted ones, in the order of keys. It ignores
// tags that are not wanted: these are the user's.
func (s *Stack) TagDrift(want map[string]string) []TagDrift {
	var drift []TagDrift
	for key, value := range want {
		if has := s.Tags[key]; has != value {
			drift = append(drift, TagDrift{key, has, value})
		}
	}
	slices.SortFunc(drift, func(a, b TagDrift) int { return cmp.Compare(a.Key, b.Key) })
	return drift
}

// Find returns a stack by its name or ID. It fails with [store.ErrNotFound] if there is
// none. A deleted stack is found by its ID only.
func (m *Manager) Find(ctx context.Context, name string) (*Stack, error) {
	out, err := ask(ctx, m, m.cf.DescribeStacks, &cloudformation.DescribeStacksInput{StackName: &name})
	if isAbsent(err) || err == nil && len(out.Stacks) == 0 {
		return nil, &store.NotFoundError{Kind: "stack", Name: name, Hint: "check the name and the region, zae-limiter list shows the stacks"}
	}
	if err != nil {
		return nil, translate("find stack "+name, err)
	}
	return stackOf(&out.Stacks[0]), nil
}

func stackOf(s *types.Stack) *Stack {
	of := &Stack{
		Name: aws.ToString(s.StackName), ID: aws.ToString(s.StackId),
		Status: string(s.StackStatus), Reason: aws.ToString(s.StackStatusReason),
		Created: aws.ToTime(s.CreationTime), Updated: aws.ToTime(s.LastUpdatedTime),
		Parameters: map[string]string{}, Outputs: map[string]string{}, Tags: map[string]string{},
		Protected: aws.ToBool(s.EnableTerminationProtection),
	}
	for _, p := range s.Parameters {
		of.Parameters[aws.ToString(p.ParameterKey)] = aws.ToString(p.ParameterValue)
	}
	for _, o := range s.Outputs {
		of.Outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	for _, t := range s.Tags {
		of.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return of
}

// A Resource is one resource of a stack.
type Resource struct{ LogicalID, PhysicalID, Type, Status, Reason string }

// Resources returns the resources of a stack in the order of their logical IDs.
func (m *Manager) Resources(ctx context.Context, name string) ([]Resource, error) {
	out, err := ask(ctx, m, m.cf.DescribeStackResources, &cloudformation.DescribeStackResourcesInput{StackName: &name})
	if err != nil {
		return nil, translate("list the resources of stack "+name, err)
	}
	var all []Resource
	for _, r := range out.StackResources {
		all = append(all, Resource{
			aws.ToString(r.LogicalResourceId), aws.ToString(r.PhysicalResourceId), aws.ToString(r.ResourceType),
			string(r.ResourceStatus), aws.ToString(r.ResourceStatusReason),
		})
	}
	slices.SortFunc(all, func(a, b Resource) int { return cmp.Compare(a.LogicalID, b.LogicalID) })
	return all, nil
}
