package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cftypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Deletion says what to delete.
type Deletion struct {
	// Name is the stack's name, or its ID.
	Name string
	// Data deletes the table and the archive, too. Otherwise they stay, outside any stack.
	Data bool
	// Retain names resources to leave, by their logical IDs. CloudFormation accepts this
	// only for a stack whose deletion failed.
	Retain []string
	// Background returns when CloudFormation has begun to delete.
	Background bool
	// Progress is called with each event once and in order; it may be nil.
	Progress func(Event)
}

// A Remainder is what a deletion leaves: resources that CloudFormation retains.
type Remainder struct {
	Kept []Resource
}

// Delete deletes a stack. It empties the code bucket, which CloudFormation deletes only if
// it is empty. With d.Data it deletes table and archive before the stack, so that a
// repetition after a crash still finds them. Before anything is deleted, it checks every
// protection, and that CloudFormation retains the data that is to stay.
//
// Delete fails with [store.ErrNotFound] if there is no stack, with a
// [*store.ValidationError] if the stack is of another type than the manager's, and with a [*ProtectedError] if
// something is protected. It fails with a [*StateError] while another operation runs, and
// with a [*FailedError] if the stack cannot be deleted.
func (m *Manager) Delete(ctx context.Context, d Deletion) (Remainder, error) {
	s, err := m.Find(ctx, d.Name)
	if err != nil {
		return Remainder{}, err
	}
	resources, err := m.Resources(ctx, s.ID)
	if err != nil {
		return Remainder{}, err
	}
	if err := m.checkOwn(s, resources); err != nil {
		return Remainder{}, err
	}
	var data, codeBuckets []Resource
	for _, r := range resources {
		switch {
		case r.PhysicalID == "" || r.Status == string(cftypes.ResourceStatusDeleteComplete) || slices.Contains(d.Retain, r.LogicalID):
		case isData(r.LogicalID, r.Type):
			data = append(data, r)
		case r.Type == typeBucket:
			codeBuckets = append(codeBuckets, r)
		}
	}
	if err := m.checkDeletable(ctx, d, s, data); err != nil {
		return Remainder{}, err
	}
	for _, r := range codeBuckets {
		if err := m.empty(ctx, r.PhysicalID); err != nil {
			return Remainder{}, err
		}
	}
	left := Remainder{data}
	if d.Data {
		if err := m.deleteData(ctx, data); err != nil {
			return Remainder{}, err
		}
		left = Remainder{}
	}
	return left, m.deleteStack(ctx, d, s)
}

// checkDeletable fails before anything is deleted, if the deletion cannot succeed.
func (m *Manager) checkDeletable(ctx context.Context, d Deletion, s *Stack, data []Resource) error {
	if s.Running() {
		return stateError(s)
	}
	if len(d.Retain) > 0 && s.Status != string(cftypes.StackStatusDeleteFailed) {
		return &store.ValidationError{
			Field: "retain", Value: strings.Join(d.Retain, ","),
			Reason: "CloudFormation retains named resources only of a stack that is DELETE_FAILED, this one is " + s.Status,
		}
	}
	if s.Protected {
		return &ProtectedError{"stack", s.Name, "switch it off with aws cloudformation update-termination-protection --no-enable-termination-protection --stack-name " + s.Name}
	}
	if d.Data {
		return m.checkTables(ctx, s, data)
	}
	retained, err := m.retained(ctx, s)
	if err != nil {
		return err
	}
	for _, r := range data {
		if !slices.Contains(retained, r.LogicalID) {
			return &ProtectedError{
				"data in " + r.LogicalID, r.PhysicalID,
				"the stack's template does not keep it: run zae-limiter upgrade -n " + s.Name + " first, or delete it too, with --delete-data",
			}
		}
	}
	return nil
}

// checkTables fails if a table has deletion protection, which this package never switches
// off.
func (m *Manager) checkTables(ctx context.Context, s *Stack, data []Resource) error {
	for _, r := range data {
		if r.Type != typeTable {
			continue
		}
		out, err := m.o.Clients.Database.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &r.PhysicalID})
		if isNoTable(err) {
			continue
		}
		if err != nil {
			return translate("describe table "+r.PhysicalID, err)
		}
		if aws.ToBool(out.Table.DeletionProtectionEnabled) {
			next := "deploy with --no-deletion-protection first"
			if _, err := checkChangeable(s); err != nil { // its creation failed, for example
				next = "switch it off with aws dynamodb update-table --table-name " + r.PhysicalID + " --no-deletion-protection-enabled"
			}
			return &ProtectedError{"table", r.PhysicalID, next}
		}
	}
	return nil
}

func (m *Manager) deleteData(ctx context.Context, data []Resource) error {
	for _, r := range data {
		switch r.Type {
		case typeTable:
			_, err := m.o.Clients.Database.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &r.PhysicalID})
			if err != nil && !isNoTable(err) {
				return translate("delete table "+r.PhysicalID, err)
			}
		case typeBucket:
			if err := m.deleteBucket(ctx, r.PhysicalID); err != nil {
				return err
			}
		default:
			return &store.ValidationError{Field: "resource", Value: r.LogicalID, Reason: "this program cannot delete a " + r.Type + ": delete it by other means, then the stack"}
		}
	}
	return nil
}

func isNoTable(err error) bool {
	absent := (*types.ResourceNotFoundException)(nil)
	return errors.As(err, &absent)
}

func (m *Manager) deleteStack(ctx context.Context, d Deletion, s *Stack) error {
	last, err := m.lastEvent(ctx, s.ID)
	if err != nil {
		return err
	}
	token := newToken()
	if _, err := ask(ctx, m, m.cf.DeleteStack, &cloudformation.DeleteStackInput{
		StackName: &s.ID, RetainResources: d.Retain, ClientRequestToken: &token,
	}); err != nil {
		return translate("delete stack "+s.Name, err)
	}
	if d.Background {
		return nil
	}
	_, err = m.follow(ctx, s.Name, s.ID, last, d.Progress)
	if failure := (*FailedError)(nil); errors.As(err, &failure) {
		return fmt.Errorf("delete stack %s: %w", s.Name, err)
	}
	return err
}
