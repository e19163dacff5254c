package cfntest

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// identifiers are the properties that identify a resource to import. AWS imports more types.
var identifiers = map[string]string{
	"AWS::DynamoDB::Table":  "TableName",
	"AWS::S3::Bucket":       "BucketName",
	"AWS::S3::BucketPolicy": "Bucket",
}

// importable checks what needs no look at the account.
func importable(in *cloudformation.CreateChangeSetInput, t *template) error {
	if (in.ChangeSetType == types.ChangeSetTypeImport) != (len(in.ResourcesToImport) > 0) {
		return invalid("ResourcesToImport must be specified for change sets of type IMPORT, and for no others")
	}
	var without []string
	for _, r := range in.ResourcesToImport {
		id, kind := aws.ToString(r.LogicalResourceId), aws.ToString(r.ResourceType)
		d, declared := t.resources[id]
		switch key, known := identifiers[kind]; {
		case !declared || d.kind != kind:
			return invalid("Resources [%s] to import are not in the template with the type %s", id, kind)
		case !known:
			return invalid("The following resource types are not supported for resource import: %s", kind)
		case len(r.ResourceIdentifier) != 1 || r.ResourceIdentifier[key] == "":
			return invalid("Invalid identifiers for resource %s: a %s is identified by %s", id, kind, key)
		case !d.keeps:
			without = append(without, id)
		}
	}
	if len(without) > 0 {
		return invalid("The following resources to import [%s] must have DeletionPolicy attribute specified in the template.", strings.Join(without, ", "))
	}
	return nil
}

// identifierOf is the value that identifies a resource to import.
func identifierOf(imports []types.ResourceToImport, id string) (string, bool) {
	for _, r := range imports {
		if aws.ToString(r.LogicalResourceId) == id {
			return r.ResourceIdentifier[identifiers[aws.ToString(r.ResourceType)]], true
		}
	}
	return "", false
}

// computeImport finds what an import does. It changes nothing else: neither the other
// resources of the stack nor its outputs.
func (s *stack) computeImport(cs *changeSet, wanted []resource) {
	if !reflect.DeepEqual(cs.form.template.outputs, s.outputsDeclared()) {
		cs.reason = "As part of the import operation, you cannot modify or add [Outputs]"
		return
	}
	var others []string
	for _, r := range wanted {
		if _, imports := identifierOf(cs.imports, r.id); imports {
			if cs.reason = s.cloud.cannotImport(r); cs.reason != "" {
				return
			}
			cs.changes = append(cs.changes, types.Change{Type: types.ChangeTypeResource, ResourceChange: &types.ResourceChange{
				Action: types.ChangeActionImport, LogicalResourceId: &r.id, PhysicalResourceId: &r.physical, ResourceType: &r.kind,
			}})
			continue
		}
		if was, exists := s.resources[r.id]; !exists || len(details(was, r)) > 0 {
			others = append(others, r.id)
		}
	}
	for id := range s.resources {
		if !slices.ContainsFunc(wanted, func(r resource) bool { return r.id == id }) {
			others = append(others, id)
		}
	}
	switch {
	case len(others) > 0:
		slices.Sort(others)
		cs.reason = "You have modified resources [" + strings.Join(others, ", ") +
			"] in your template that are not being imported. Update, create or delete operations cannot be executed during import operations."
	case len(cs.changes) != len(cs.imports):
		cs.reason = "A resource to import has a condition that does not hold"
	default:
		cs.wanted, cs.status, cs.execution = wanted, types.ChangeSetStatusCreateComplete, types.ExecutionStatusAvailable
	}
}

// cannotImport is the reason for which a resource cannot be imported, "" if it can.
func (c *Cloud) cannotImport(r resource) string {
	for _, s := range c.stacks {
		for _, has := range s.resources {
			if has.kind == r.kind && has.physical == r.physical && has.status != types.ResourceStatusDeleteComplete {
				return r.physical + " already exists in stack " + s.id
			}
		}
	}
	there := c.exists[r.kind+" "+r.physical]
	if r.kind == "AWS::DynamoDB::Table" && c.o.Tables != nil {
		_, err := c.o.Tables.DescribeTable(context.Background(), &dynamodb.DescribeTableInput{TableName: &r.physical})
		there = err == nil
	}
	key := identifiers[r.kind]
	switch named, ok := r.values[key].(string); {
	case !there:
		return "Resource of type '" + r.kind + "' with identifier '" + r.physical + "' was not found."
	case ok && named != r.physical:
		return "The identifier " + key + " of resource " + r.id + " differs from its value in the template"
	}
	return ""
}

// startImport takes resources into a stack. A failure leaves them as they are, outside it.
func (s *stack) startImport(f form, wanted []resource, token string) {
	s.turn(s.cloud.o.Now(), types.StackStatusImportInProgress, "User Initiated", token)
	var tasks []task
	var taken []string
	for _, r := range wanted {
		if _, has := s.resources[r.id]; has {
			continue
		}
		tasks = append(tasks, task{
			begin: func(at time.Time) {
				s.put(r)
				taken = append(taken, r.id)
				s.change(at, r, types.ResourceStatusImportInProgress, "Resource import started.")
			},
			end: func(at time.Time) string {
				if reason := s.cloud.fail["IMPORT "+r.id]; reason != "" {
					s.change(at, r, types.ResourceStatusImportFailed, reason)
					return r.id
				}
				s.change(at, r, types.ResourceStatusImportComplete, "Resource import completed.")
				return ""
			},
		})
	}
	tasks = append(tasks, s.finish(types.StackStatusImportComplete, func() { s.form = f }))
	s.run(token, tasks, func(at time.Time, reason string) {
		s.turn(at, types.StackStatusImportRollbackInProgress, because(s, "import", reason), s.op.token)
		s.op.queue = []task{s.finish(types.StackStatusImportRollbackComplete, func() {
			for _, id := range taken {
				s.drop(id)
			}
		})}
		s.op.failed = s.giveUp(types.StackStatusImportRollbackFailed)
	})
}
