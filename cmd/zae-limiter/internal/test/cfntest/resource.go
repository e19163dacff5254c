package cfntest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// A resource is a resource with its properties resolved.
type resource struct {
	declared
	physical string
	values   map[string]any // the properties
	status   types.ResourceStatus
	reason   string
	fresh    bool // the operation that runs made it
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

// always and conditionally are the properties whose change replaces a resource, after the
// lines "Update requires" of the resource reference.
var always = map[string][]string{
	"AWS::DynamoDB::Table":                        {"TableName", "KeySchema", "LocalSecondaryIndexes", "ImportSourceSpecification"},
	"AWS::S3::Bucket":                             {"BucketName"},
	"AWS::S3::BucketPolicy":                       {"Bucket"},
	"AWS::SQS::Queue":                             {"QueueName", "FifoQueue"},
	"AWS::SNS::Topic":                             {"TopicName", "FifoTopic"},
	"AWS::Lambda::Function":                       {"FunctionName", "PackageType"},
	"AWS::Lambda::EventSourceMapping":             {"EventSourceArn", "StartingPosition", "StartingPositionTimestamp"},
	"AWS::Lambda::Permission":                     {"Action", "FunctionName", "Principal", "SourceAccount", "SourceArn"},
	"AWS::Logs::LogGroup":                         {"LogGroupName"},
	"AWS::CloudWatch::Alarm":                      {"AlarmName"},
	"AWS::CloudWatch::Dashboard":                  {"DashboardName"},
	"AWS::IAM::Role":                              {"RoleName", "Path"},
	"AWS::IAM::ManagedPolicy":                     {"ManagedPolicyName", "Description", "Path"},
	"AWS::EC2::SecurityGroup":                     {"GroupDescription", "GroupName", "VpcId"},
	"AWS::EC2::SecurityGroupEgress":               {"DestinationSecurityGroupId", "FromPort", "GroupId", "IpProtocol", "ToPort"},
	"AWS::EC2::SecurityGroupIngress":              {"FromPort", "GroupId", "IpProtocol", "SourceSecurityGroupId", "ToPort"},
	"AWS::EC2::VPCEndpoint":                       {"ServiceName", "VpcEndpointType", "VpcId"},
	"AWS::ECS::Cluster":                           {"ClusterName"},
	"AWS::ECS::Service":                           {"Cluster", "LaunchType", "SchedulingStrategy", "ServiceName"},
	"AWS::ECS::TaskDefinition":                    {"ContainerDefinitions", "Cpu", "ExecutionRoleArn", "Family", "Memory", "NetworkMode", "RequiresCompatibilities", "RuntimePlatform", "TaskRoleArn", "Volumes"},
	"AWS::Events::Rule":                           {"EventBusName", "Name"},
	"AWS::Lambda::EventInvokeConfig":              {"FunctionName", "Qualifier"},
	"AWS::ServiceDiscovery::PrivateDnsNamespace":  {"Name", "Vpc"},
	"AWS::ServiceDiscovery::Service":              {"Name", "NamespaceId"},
	"AWS::ApplicationAutoScaling::ScalableTarget": {"ResourceId", "ScalableDimension", "ServiceNamespace"},
	"AWS::ApplicationAutoScaling::ScalingPolicy":  {"PolicyName", "ResourceId", "ScalableDimension", "ScalingTargetId", "ServiceNamespace"},
}

// recreation says what a change of a property means for a resource.
func recreation(kind, property string, before, after any) types.RequiresRecreation {
	switch {
	case slices.Contains(always[kind], property):
		return types.RequiresRecreationAlways
	case kind != "AWS::DynamoDB::Table":
		return types.RequiresRecreationNever
	case property == "AttributeDefinitions" && definesAgain(before, after):
		return types.RequiresRecreationConditionally
	case property == "GlobalSecondaryIndexes" && reshapes(before, after):
		return types.RequiresRecreationConditionally
	}
	return types.RequiresRecreationNever
}

// definesAgain reports whether an attribute changes its type.
func definesAgain(before, after any) bool {
	old := keyed(before, "AttributeName")
	for name, definition := range keyed(after, "AttributeName") {
		if was, ok := old[name]; ok && !reflect.DeepEqual(was, definition) {
			return true
		}
	}
	return false
}

// reshapes reports whether an index changes its key or its projection.
func reshapes(before, after any) bool {
	old := keyed(before, "IndexName")
	for name, index := range keyed(after, "IndexName") {
		was, ok := old[name]
		if ok && (!reflect.DeepEqual(was["KeySchema"], index["KeySchema"]) || !reflect.DeepEqual(was["Projection"], index["Projection"])) {
			return true
		}
	}
	return false
}

// keyed is a list of maps by one of their entries.
func keyed(list any, key string) map[string]map[string]any {
	by := map[string]map[string]any{}
	all, _ := list.([]any)
	for _, e := range all {
		if m, ok := e.(map[string]any); ok {
			name, _ := m[key].(string)
			by[name] = m
		}
	}
	return by
}

// reference is what Ref gives.
func (r resource) reference() string {
	switch r.kind {
	case "AWS::SQS::Queue":
		return fmt.Sprintf("https://sqs.%s.amazonaws.com/%s/%s", Region, Account, r.physical)
	case "AWS::IAM::ManagedPolicy":
		return fmt.Sprintf("arn:aws:iam::%s:policy/%s", Account, r.physical)
	case "AWS::SNS::Topic":
		return r.attribute("Arn")
	}
	return r.physical
}

// attribute is what Fn::GetAtt gives.
func (r resource) attribute(name string) string {
	parts := strings.Split(r.kind, "::")
	service := strings.ToLower(parts[len(parts)-2])
	switch {
	case name == "Arn" && r.kind == "AWS::S3::Bucket":
		return "arn:aws:s3:::" + r.physical
	case name == "Arn" && service == "iam":
		return fmt.Sprintf("arn:aws:iam::%s:role/%s", Account, r.physical)
	case name == "Arn":
		return fmt.Sprintf("arn:aws:%s:%s:%s:%s/%s", service, Region, Account, strings.ToLower(parts[len(parts)-1]), r.physical)
	case name == "Name" && r.kind == "AWS::ECS::Service":
		text, _ := r.values["ServiceName"].(string)
		return text
	case name == "StreamArn":
		return r.attribute("Arn") + "/stream/2026-01-02T03:04:05.000"
	case name == "QueueName", name == "TopicName":
		return r.physical
	}
	return r.physical + "." + name
}

// plan resolves a template for a stack: the resources that it is to have, in the order in
// which they are made. before are the resources that it has.
func (s *scope) plan(c *Cloud, before map[string]resource) (ordered []resource, err error) {
	wanted := map[string]declared{}
	for id, d := range s.template.resources {
		holds := true
		if d.condition != "" {
			if holds, err = s.condition(d.condition); err != nil {
				return nil, err
			}
		}
		if holds {
			wanted[id] = d
		}
	}
	order, err := s.order(wanted)
	if err != nil {
		return nil, err
	}
	for _, id := range order {
		r, err := s.resolve(c, wanted[id], before)
		if err != nil {
			return nil, err
		}
		s.physical[id] = r
		ordered = append(ordered, r)
	}
	return ordered, nil
}

// resolve evaluates a resource and finds its physical name: the old one unless its change
// replaces it.
func (s *scope) resolve(c *Cloud, d declared, before map[string]resource) (resource, error) {
	value, err := s.eval(d.properties)
	if err != nil {
		return resource{}, err
	}
	values, ok := value.(map[string]any)
	if !ok {
		return resource{}, invalid("Template format error: properties of %s must be an object", d.id)
	}
	r := resource{declared: d, values: values}
	if id, ok := identifierOf(s.imports, d.id); ok {
		r.physical = id
		return r, nil
	}
	old, exists := before[d.id]
	if exists && replacement(details(old, r)) != types.ReplacementTrue {
		r.physical = old.physical
		return r, nil
	}
	if name, ok := values[names[d.kind]].(string); ok {
		r.physical = name
		return r, nil
	}
	r.physical = strings.ToLower(s.stack.name + "-" + d.id + "-" + c.next())
	return r, nil
}

// order sorts resources so that each comes after those that it needs.
func (s *scope) order(wanted map[string]declared) ([]string, error) {
	var order []string
	state := map[string]int{} // 1: under way, 2: done
	var visit func(id string) error
	visit = func(id string) error {
		d, ok := wanted[id]
		if !ok || state[id] == 2 {
			return nil
		}
		if state[id] == 1 {
			return invalid("Circular dependency between resources: [%s]", id)
		}
		state[id] = 1
		for _, of := range append(refs(d.properties), d.dependsOn...) {
			if err := visit(of); err != nil {
				return err
			}
		}
		state[id] = 2
		order = append(order, id)
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		if err := visit(id); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// details are the properties in which a resource differs.
func details(before, after resource) []types.ResourceChangeDetail {
	all := map[string]any{}
	maps.Copy(all, before.values)
	maps.Copy(all, after.values)
	var changed []types.ResourceChangeDetail
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == "Tags" || reflect.DeepEqual(before.values[name], after.values[name]) {
			continue
		}
		changed = append(changed, types.ResourceChangeDetail{
			ChangeSource: types.ChangeSourceDirectModification, Evaluation: types.EvaluationTypeStatic,
			Target: &types.ResourceTargetDefinition{
				Attribute: types.ResourceAttributeProperties, Name: &name,
				RequiresRecreation: recreation(after.kind, name, before.values[name], after.values[name]),
			},
		})
	}
	if !reflect.DeepEqual(before.values["Tags"], after.values["Tags"]) {
		changed = append(changed, tagsChange())
	}
	return changed
}

func tagsChange() types.ResourceChangeDetail {
	return types.ResourceChangeDetail{
		ChangeSource: types.ChangeSourceDirectModification, Evaluation: types.EvaluationTypeStatic,
		Target: &types.ResourceTargetDefinition{Attribute: types.ResourceAttributeTags, RequiresRecreation: types.RequiresRecreationNever},
	}
}

// replacement is the worst of what details require.
func replacement(all []types.ResourceChangeDetail) types.Replacement {
	worst := types.ReplacementFalse
	for _, d := range all {
		if d.Target.RequiresRecreation == types.RequiresRecreationAlways {
			return types.ReplacementTrue
		}
		if d.Target.RequiresRecreation == types.RequiresRecreationConditionally {
			worst = types.ReplacementConditional
		}
	}
	return worst
}
