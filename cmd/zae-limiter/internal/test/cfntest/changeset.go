package cfntest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/template"
)

// A changeSet is a computed change, which was made from the stack as it was then.
type changeSet struct {
	id, name  string
	kind      types.ChangeSetType
	status    types.ChangeSetStatus
	reason    string
	execution types.ExecutionStatus
	form      form
	wanted    []resource
	changes   []types.Change
	imports   []types.ResourceToImport
	seen      bool // somebody has looked at it
}

// CreateChangeSet computes a change set.
func (c *Cloud) CreateChangeSet(_ context.Context, in *cloudformation.CreateChangeSetInput, _ ...func(*cloudformation.Options)) (*cloudformation.CreateChangeSetOutput, error) {
	return once(c, "CreateChangeSet", in.ClientToken, func() (*cloudformation.CreateChangeSetOutput, error) {
		name, s := aws.ToString(in.StackName), c.live(aws.ToString(in.StackName))
		switch empty := s == nil || s.status == string(types.StackStatusReviewInProgress); {
		case in.ChangeSetType == types.ChangeSetTypeCreate && !empty:
			return nil, invalid("Stack [%s] already exists and cannot be created again with the changeSet [%s].", name, aws.ToString(in.ChangeSetName))
		case in.ChangeSetType == types.ChangeSetTypeUpdate && s == nil:
			return nil, invalid("Stack [%s] does not exist", name)
		case !empty && s.op != nil:
			return nil, invalid("Stack:%s is in %s state and can not be updated.", s.id, s.status)
		}
		f, err := requestedForm(in, s)
		if err != nil {
			return nil, err
		}
		if s == nil {
			s = c.newStack(name)
			s.turn(c.o.Now(), types.StackStatusReviewInProgress, "User Initiated", "")
		}
		cs := &changeSet{
			name: *in.ChangeSetName, kind: in.ChangeSetType, form: f, imports: in.ResourcesToImport,
			id: fmt.Sprintf("arn:aws:cloudformation:%s:%s:changeSet/%s/%s", Region, Account, *in.ChangeSetName, c.next()),
		}
		s.changeSets = append(s.changeSets, cs)
		s.compute(cs)
		return &cloudformation.CreateChangeSetOutput{Id: &cs.id, StackId: &s.id}, nil
	})
}

func parse(body *string) (*template.Template, error) {
	t, err := template.Parse(aws.ToString(body))
	if err != nil {
		return nil, invalid("Template format error: %v", err)
	}
	return t, nil
}

// requestedForm is the template of a request with its parameters and tags.
func requestedForm(in *cloudformation.CreateChangeSetInput, s *stack) (f form, err error) {
	f = form{body: aws.ToString(in.TemplateBody), parameters: map[string]string{}, tags: map[string]string{}}
	if aws.ToBool(in.UsePreviousTemplate) {
		f.body = s.form.body
	}
	if f.template, err = parse(&f.body); err != nil {
		return f, err
	}
	for name := range f.template.Section("Parameters") {
		f.parameters[name] = f.template.Default(name)
	}
	for _, p := range in.Parameters {
		name, value := *p.ParameterKey, aws.ToString(p.ParameterValue)
		if aws.ToBool(p.UsePreviousValue) {
			value = s.form.parameters[name]
		}
		f.parameters[name] = value
	}
	for _, t := range in.Tags {
		f.tags[*t.Key] = *t.Value
	}
	for _, r := range f.template.Resources {
		if strings.HasPrefix(r.Type, "AWS::IAM::") && !slices.Contains(in.Capabilities, types.CapabilityCapabilityNamedIam) {
			return f, &types.InsufficientCapabilitiesException{Message: aws.String("Requires capabilities : [CAPABILITY_NAMED_IAM]")}
		}
	}
	return f, nil
}

// compute finds what a change set changes.
func (s *stack) compute(cs *changeSet) {
	cs.status, cs.execution = types.ChangeSetStatusFailed, types.ExecutionStatusUnavailable
	wanted, err := s.evaluate(cs)
	if err != nil {
		cs.reason = err.Error()
		return
	}
	retag := cs.kind == types.ChangeSetTypeUpdate && !reflect.DeepEqual(cs.form.tags, s.form.tags)
	for _, r := range wanted {
		if change := s.changeOf(r, cs, retag); change != nil {
			cs.changes = append(cs.changes, types.Change{Type: types.ChangeTypeResource, ResourceChange: change})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.resources)) {
		if r := s.resources[id]; !slices.ContainsFunc(wanted, func(r resource) bool { return r.ID == id }) {
			cs.changes = append(cs.changes, types.Change{Type: types.ChangeTypeResource, ResourceChange: &types.ResourceChange{
				Action: types.ChangeActionRemove, LogicalResourceId: &r.ID, PhysicalResourceId: &r.physical, ResourceType: &r.Type,
			}})
		}
	}
	if len(cs.changes) == 0 && !retag && reflect.DeepEqual(cs.form.outputs, s.form.outputs) {
		cs.reason = "The submitted information didn't contain changes. Submit different information to create a change set."
		return
	}
	cs.wanted, cs.status, cs.execution = wanted, types.ChangeSetStatusCreateComplete, types.ExecutionStatusAvailable
}

// changeOf is the change of a resource, nil if there is none.
func (s *stack) changeOf(r resource, cs *changeSet, retag bool) *types.ResourceChange {
	change := &types.ResourceChange{LogicalResourceId: &r.ID, ResourceType: &r.Type, Action: types.ChangeActionAdd}
	was, exists := s.resources[r.ID]
	switch {
	case imported(cs.imports, r.ID) != "":
		change.Action, change.PhysicalResourceId = types.ChangeActionImport, &r.physical
	case exists:
		change.Action, change.PhysicalResourceId, change.Details = types.ChangeActionModify, &was.physical, details(was, r, retag)
		if len(change.Details) == 0 {
			return nil
		}
		change.Replacement = types.ReplacementFalse
		for _, d := range change.Details {
			switch d.Target.RequiresRecreation {
			case types.RequiresRecreationAlways:
				change.Replacement = types.ReplacementTrue
			case types.RequiresRecreationConditionally:
				change.Replacement = types.ReplacementConditional
			default:
			}
			if !slices.Contains(change.Scope, d.Target.Attribute) {
				change.Scope = append(change.Scope, d.Target.Attribute)
			}
		}
	}
	return change
}

// details are the properties in which a resource differs. With retag, its tags change, too.
func details(before, after resource, retag bool) []types.ResourceChangeDetail {
	all := maps.Clone(before.values)
	maps.Copy(all, after.values)
	var changed []types.ResourceChangeDetail
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name != "Tags" && !reflect.DeepEqual(before.values[name], after.values[name]) {
			changed = append(changed, types.ResourceChangeDetail{Target: &types.ResourceTargetDefinition{
				Attribute: types.ResourceAttributeProperties, Name: &name, RequiresRecreation: replaces(after.Type, name),
			}})
		}
	}
	if retag && len(changed) == 0 || !reflect.DeepEqual(before.values["Tags"], after.values["Tags"]) {
		changed = append(changed, types.ResourceChangeDetail{
			Target: &types.ResourceTargetDefinition{Attribute: types.ResourceAttributeTags, RequiresRecreation: types.RequiresRecreationNever},
		})
	}
	return changed
}

// replaces says whether a change of a property replaces a resource: one that names it does, any of
// a task definition does, and the indexes of a table do or may.
func replaces(kind, property string) types.RequiresRecreation {
	switch {
	case property == names[kind] || kind == "AWS::ECS::TaskDefinition" || property == "LocalSecondaryIndexes" || property == "StartingPosition":
		return types.RequiresRecreationAlways
	case property == "GlobalSecondaryIndexes":
		return types.RequiresRecreationConditionally
	}
	return types.RequiresRecreationNever
}

// names are the properties that name a resource. A type without one gets a name from
// CloudFormation.
var names = map[string]string{
	"AWS::DynamoDB::Table":       "TableName",
	"AWS::S3::Bucket":            "BucketName",
	"AWS::S3::BucketPolicy":      "Bucket",
	"AWS::SQS::Queue":            "QueueName",
	"AWS::SNS::Topic":            "TopicName",
	"AWS::Lambda::Function":      "FunctionName",
	"AWS::Logs::LogGroup":        "LogGroupName",
	"AWS::CloudWatch::Alarm":     "AlarmName",
	"AWS::CloudWatch::Dashboard": "DashboardName",
	"AWS::IAM::Role":             "RoleName",
	"AWS::IAM::ManagedPolicy":    "ManagedPolicyName",
	"AWS::ECS::Cluster":          "ClusterName",
	"AWS::Events::Rule":          "Name",
}

// A plan is the evaluation of a template for a stack.
type plan struct {
	*template.Scope
	*changeSet
	stack   *stack
	made    map[string]*resource // nil while it is under way
	ordered []resource
}

// evaluate finds the resources that a change set wants, each after those that it needs, and
// the outputs.
func (s *stack) evaluate(cs *changeSet) ([]resource, error) {
	p := &plan{changeSet: cs, stack: s, made: map[string]*resource{}, Scope: &template.Scope{
		Template: cs.form.template, Name: s.name, Account: Account, Region: Region, Values: cs.form.parameters,
	}}
	p.Resource = func(id, attribute string) (string, error) {
		r, err := p.resource(id)
		if err != nil {
			return "", err
		}
		return r.attribute(attribute), nil
	}
	byID := slices.SortedFunc(slices.Values(p.Resources), func(a, b template.Resource) int { return strings.Compare(a.ID, b.ID) })
	for _, r := range byID {
		if p.Holds(r.Condition) {
			if _, err := p.resource(r.ID); err != nil {
				return nil, err
			}
		}
	}
	cs.form.outputs = map[string]string{}
	for id, o := range p.Section("Outputs") {
		output, _ := o.(map[string]any)
		if condition, _ := output["Condition"].(string); p.Holds(condition) {
			cs.form.outputs[id], _ = p.Eval(output["Value"]).(string)
		}
	}
	return p.ordered, p.Err()
}

// resource evaluates a resource after those that it needs.
func (p *plan) resource(id string) (*resource, error) {
	if r, known := p.made[id]; r != nil {
		return r, nil
	} else if known {
		return nil, errors.New("Circular dependency between resources: [" + id + "]")
	}
	for _, declared := range p.Resources {
		if declared.ID != id || !p.Holds(declared.Condition) {
			continue
		}
		p.made[id] = nil
		r := &resource{Resource: declared}
		r.values, _ = p.Eval(r.Properties).(map[string]any)
		for _, other := range r.DependsOn {
			_, _ = p.resource(other) // it need not be wanted
		}
		r.physical = p.physical(r)
		p.made[id], p.ordered = r, append(p.ordered, *r)
		return r, nil
	}
	return nil, errors.New("Template format error: Unresolved resource dependencies [" + id + "] in the Resources block of the template")
}

// physical is the name of a resource: the old one unless a change replaces it.
func (p *plan) physical(r *resource) string {
	if id := imported(p.imports, r.ID); id != "" {
		return id
	}
	named, _ := r.values[names[r.Type]].(string)
	switch old, exists := p.stack.resources[r.ID]; {
	case named != "":
		return named
	case exists && !slices.ContainsFunc(details(old, *r, false), func(d types.ResourceChangeDetail) bool {
		return d.Target.RequiresRecreation == types.RequiresRecreationAlways
	}):
		return old.physical
	}
	return strings.ToLower(p.stack.name + "-" + r.ID + "-" + p.stack.cloud.next())
}

// imported is the identifier of a resource to import, "" for another resource.
func imported(imports []types.ResourceToImport, id string) string {
	for _, r := range imports {
		for _, identifier := range r.ResourceIdentifier {
			if *r.LogicalResourceId == id {
				return identifier
			}
		}
	}
	return ""
}

// attribute is what Ref gives of a resource, whose attribute is "", or else Fn::GetAtt.
func (r *resource) attribute(name string) string {
	service, kind := "", ""
	if parts := strings.Split(strings.ToLower(r.Type), "::"); len(parts) == 3 { //nolint:mnd // AWS::Service::Kind
		service, kind = parts[1], parts[2]
	}
	text, _ := r.values["ServiceName"].(string)
	switch {
	case name == "" && r.Type == "AWS::SQS::Queue":
		return fmt.Sprintf("https://sqs.%s.amazonaws.com/%s/%s", Region, Account, r.physical)
	case name == "" && r.Type == "AWS::IAM::ManagedPolicy":
		return fmt.Sprintf("arn:aws:iam::%s:policy/%s", Account, r.physical)
	case name == "" && r.Type != "AWS::SNS::Topic", strings.HasSuffix(name, "Name") && service != "ecs":
		return r.physical
	case name == "Name":
		return text
	case service == "s3":
		return "arn:aws:s3:::" + r.physical
	case service == "iam":
		return fmt.Sprintf("arn:aws:iam::%s:role/%s", Account, r.physical)
	case name == "StreamArn":
		return r.attribute("Arn") + "/stream/2026-01-02T03:04:05.000"
	case name == "" || name == "Arn":
		return fmt.Sprintf("arn:aws:%s:%s:%s:%s/%s", service, Region, Account, kind, r.physical)
	}
	return r.physical + "." + name
}

// find is the change set of a name or ARN.
func (c *Cloud) find(name, stackName *string) (*stack, *changeSet, error) {
	for _, s := range c.stacks {
		for _, cs := range s.changeSets {
			if cs.id == *name || cs.name == *name && (s.name == aws.ToString(stackName) || s.id == aws.ToString(stackName)) {
				return s, cs, nil
			}
		}
	}
	return nil, nil, &types.ChangeSetNotFoundException{Message: aws.String("ChangeSet [" + *name + "] does not exist")}
}

// DescribeChangeSet shows a change set.
func (c *Cloud) DescribeChangeSet(_ context.Context, in *cloudformation.DescribeChangeSetInput, _ ...func(*cloudformation.Options)) (*cloudformation.DescribeChangeSetOutput, error) {
	return call(c, "DescribeChangeSet", func() (*cloudformation.DescribeChangeSetOutput, error) {
		s, cs, err := c.find(in.ChangeSetName, in.StackName)
		if err != nil {
			return nil, err
		}
		out := &cloudformation.DescribeChangeSetOutput{
			ChangeSetId: &cs.id, ChangeSetName: &cs.name, StackId: &s.id, StackName: &s.name,
			Status: types.ChangeSetStatusCreateInProgress, ExecutionStatus: types.ExecutionStatusUnavailable,
		}
		if !cs.seen && c.o.LateChangeSets {
			cs.seen = true
			return out, nil
		}
		out.Status, out.ExecutionStatus, out.StatusReason = cs.status, cs.execution, optional(cs.reason)
		out.Changes, out.NextToken, err = page(cs.changes, c.o.Page, in.NextToken)
		return out, err
	})
}

// ExecuteChangeSet starts the operation of a change set and makes the others of the stack
// obsolete.
func (c *Cloud) ExecuteChangeSet(_ context.Context, in *cloudformation.ExecuteChangeSetInput, _ ...func(*cloudformation.Options)) (*cloudformation.ExecuteChangeSetOutput, error) {
	return once(c, "ExecuteChangeSet", in.ClientRequestToken, func() (*cloudformation.ExecuteChangeSetOutput, error) { //nolint:contextcheck // the operation outlives its request
		s, cs, err := c.find(in.ChangeSetName, in.StackName)
		switch {
		case err != nil:
			return nil, err
		case cs.execution != types.ExecutionStatusAvailable:
			return nil, &types.InvalidChangeSetStatusException{Message: aws.String(fmt.Sprintf(
				"ChangeSet [%s] cannot be executed in its current execution status of [%s]", cs.id, cs.execution))}
		case s.op != nil:
			return nil, invalid("Stack:%s is in %s state and can not be updated.", s.id, s.status)
		}
		for _, other := range s.changeSets {
			if other.execution == types.ExecutionStatusAvailable {
				other.execution = types.ExecutionStatusObsolete
			}
		}
		cs.execution = types.ExecutionStatusExecuteComplete
		s.start(cs, aws.ToString(in.ClientRequestToken))
		return &cloudformation.ExecuteChangeSetOutput{}, nil
	})
}

// DeleteChangeSet deletes a change set, and succeeds if it is gone.
func (c *Cloud) DeleteChangeSet(_ context.Context, in *cloudformation.DeleteChangeSetInput, _ ...func(*cloudformation.Options)) (*cloudformation.DeleteChangeSetOutput, error) {
	return call(c, "DeleteChangeSet", func() (*cloudformation.DeleteChangeSetOutput, error) {
		if s, cs, err := c.find(in.ChangeSetName, in.StackName); err == nil {
			s.changeSets = slices.DeleteFunc(s.changeSets, func(other *changeSet) bool { return other == cs })
		}
		return &cloudformation.DeleteChangeSetOutput{}, nil
	})
}

// ListChangeSets lists the change sets of a stack.
func (c *Cloud) ListChangeSets(_ context.Context, in *cloudformation.ListChangeSetsInput, _ ...func(*cloudformation.Options)) (*cloudformation.ListChangeSetsOutput, error) {
	return call(c, "ListChangeSets", func() (*cloudformation.ListChangeSetsOutput, error) {
		s, err := c.stack(in.StackName)
		if err != nil {
			return nil, err
		}
		out := &cloudformation.ListChangeSetsOutput{}
		for _, cs := range s.changeSets {
			out.Summaries = append(out.Summaries, types.ChangeSetSummary{ChangeSetId: &cs.id, ChangeSetName: &cs.name, Status: cs.status, ExecutionStatus: cs.execution})
		}
		return out, nil
	})
}
