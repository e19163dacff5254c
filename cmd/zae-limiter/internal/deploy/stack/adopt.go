package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/store"
)

// An Adoption says which resources outside any stack a deployment takes into its stack: the
// table of the stack's name, and an archive. A deletion left them, or a backup was restored.
type Adoption struct {
	// Archive is the name of the bucket of archived audit events; "" adopts none.
	Archive string
}

// imports are the resources that a rollout adopts before everything else. There are none if
// the stack has the table already: an earlier deployment was cut short after its import.
func (m *Manager) imports(ctx context.Context, r Rollout, live *Stack, resources []Resource) ([]types.ResourceToImport, error) {
	if r.Adopt == nil {
		return nil, nil
	}
	has := map[string]string{}
	for _, of := range resources {
		if of.Status != string(types.ResourceStatusDeleteComplete) {
			has[of.LogicalID] = of.PhysicalID
		}
	}
	archive := r.Adopt.Archive
	switch {
	case has[TableID] != "" && (archive == "" || archive == has[ArchiveID]):
		return nil, nil
	case has[TableID] != "":
		return nil, &store.ValidationError{Field: "archive", Value: archive, Reason: "stack " + r.Name + " exists without it, and CloudFormation adopts it only together with the table: leave it out"}
	case len(has) > 0:
		return nil, &store.ValidationError{Field: "stack", Value: r.Name, Reason: "it has resources and no table, so it cannot adopt one: delete it, then deploy again"}
	}
	if live != nil {
		if _, err := checkChangeable(live); err != nil {
			return nil, err
		}
	}
	if err := m.checkAdoptable(ctx, r.Spec); err != nil {
		return nil, err
	}
	all := []types.ResourceToImport{toImport(TableID, typeTable, "TableName", r.Name)}
	if archive == "" {
		return all, nil
	}
	policy, err := m.hasPolicy(ctx, archive)
	if err != nil {
		return nil, err
	}
	all = append(all, toImport(ArchiveID, typeBucket, "BucketName", archive))
	if policy {
		all = append(all, toImport(archivePolicyID, typeBucketPolicy, "Bucket", archive))
	}
	return all, nil
}

func toImport(logicalID, kind, key, value string) types.ResourceToImport {
	return types.ResourceToImport{LogicalResourceId: &logicalID, ResourceType: &kind, ResourceIdentifier: map[string]string{key: value}}
}

// hasPolicy reports whether a bucket has a policy. CloudFormation can neither import a policy
// that does not exist, nor make one where another is.
func (m *Manager) hasPolicy(ctx context.Context, bucket string) (bool, error) {
	_, err := m.o.Clients.Buckets.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: &bucket})
	switch {
	case codeOf(err) == "NoSuchBucketPolicy":
		return false, nil
	case isNoBucket(err):
		return false, &store.NotFoundError{Kind: "bucket", Name: bucket, Hint: "zae-limiter delete named the archive that it kept; leave --adopt-archive out for a new one"}
	}
	return err == nil, translate("read the policy of bucket "+bucket, err)
}

// checkAdoptable fails unless a table is as the template of a spec declares it. CloudFormation
// imports a table without looking: it would take the template for the truth, and no later
// update would correct the table.
func (m *Manager) checkAdoptable(ctx context.Context, s Spec) error {
	has, unusable, err := m.tableNow(ctx, s.Name)
	if err != nil {
		return err
	}
	wants, err := declaredTable(s)
	if err != nil {
		return err
	}
	differences := wants.differences(s.Name, has)
	if unusable != "" {
		differences = append([]string{unusable}, differences...)
	}
	if len(differences) > 0 {
		return &MisfitError{s.Name, differences}
	}
	return nil
}

// importSpec is a spec with nothing but the resources to import. CloudFormation changes nothing
// else in such an operation, outputs included.
func importSpec(s Spec, imports []types.ResourceToImport) (Spec, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(s.Template), &document); err != nil {
		return s, fmt.Errorf("read the template of stack %s: %w", s.Name, err)
	}
	root := document.Content[0]
	dropKeys(root, func(section string) bool { return section == "Outputs" })
	var missing error
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "Resources" {
			missing = onlyImports(root.Content[i+1], imports)
		}
	}
	var b bytes.Buffer
	err := errors.Join(missing, yaml.NewEncoder(&b).Encode(&document))
	s.Template = b.String()
	return s, err
}

// onlyImports removes the resources that are not imported. An imported one is retained,
// whatever becomes of the operation. The properties leave out those that were not compared: all
// of a bucket, and the recovery of a table. The update that follows sets these again, and it
// does not matter how they were.
func onlyImports(resources *yaml.Node, imports []types.ResourceToImport) error {
	dropKeys(resources, func(id string) bool {
		return !slices.ContainsFunc(imports, func(r types.ResourceToImport) bool { return *r.LogicalResourceId == id })
	})
	if len(resources.Content) != 2*len(imports) {
		return &store.ValidationError{Field: "template", Reason: "it lacks a resource that is to be adopted"}
	}
	for i := 1; i < len(resources.Content); i += 2 {
		r := resources.Content[i]
		bucket := slices.ContainsFunc(r.Content, func(n *yaml.Node) bool { return n.Value == typeBucket })
		dropKeys(r, func(key string) bool {
			return key == "DeletionPolicy" || key == "UpdateReplacePolicy" || key == "Metadata" || bucket && key == "Properties"
		})
		for _, properties := range r.Content {
			dropKeys(properties, func(key string) bool { return key == "PointInTimeRecoverySpecification" })
		}
		for _, key := range []string{"DeletionPolicy", "UpdateReplacePolicy"} {
			r.Content = append(r.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &yaml.Node{Kind: yaml.ScalarNode, Value: "Retain"})
		}
	}
	return nil
}

// dropKeys removes entries of a mapping. Other nodes have none.
func dropKeys(mapping *yaml.Node, drop func(key string) bool) {
	if mapping.Kind != yaml.MappingNode {
		return
	}
	var kept []*yaml.Node
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if !drop(mapping.Content[i].Value) {
			kept = append(kept, mapping.Content[i], mapping.Content[i+1])
		}
	}
	mapping.Content = kept
}

// adopt is the first part of a deployment that adopts resources: a change set of the type
// IMPORT.
func (m *Manager) adopt(ctx context.Context, r Rollout, imports []types.ResourceToImport, out *Outcome) (done bool, err error) {
	spec, err := importSpec(r.Spec, imports)
	if err != nil {
		return false, err
	}
	p, err := m.plan(ctx, spec, imports)
	if err != nil {
		return false, err
	}
	p.Later = laterThanImport(r)
	done, err = m.carryOut(ctx, r, p, "", out)
	if len(out.Remaining) > 0 {
		out.Remaining = slices.Insert(out.Remaining, 0, "add the other resources")
	}
	return done, err
}

// laterThanImport says what follows an import, for [Plan.Later].
func laterThanImport(r Rollout) string {
	if r.Code == nil || r.Code.Bucket != "" {
		return "a second change set adds everything else"
	}
	return "a second change set adds everything but the functions, and a third one the functions"
}

// imported are the changes of a new stack, of which some resources are imported.
func imported(changes []Change, imports []types.ResourceToImport) []Change {
	for i := range changes {
		for _, of := range imports {
			if *of.LogicalResourceId == changes[i].LogicalID {
				changes[i].Action = string(types.ChangeActionImport)
				for _, value := range of.ResourceIdentifier {
					changes[i].PhysicalID = value
				}
			}
		}
	}
	return changes
}

// A MisfitError says why a table cannot be adopted. Nothing was changed. It is
// [store.ErrUnsupported].
type MisfitError struct {
	Table       string
	Differences []string // each with what to do about it
}

// Error has all differences.
func (e *MisfitError) Error() string {
	return fmt.Sprintf("adopt table %s: it differs from what the stack declares, and an import does not change it: %s", e.Table, strings.Join(e.Differences, "; "))
}

// Is reports whether target is [store.ErrUnsupported].
func (*MisfitError) Is(target error) bool { return target == store.ErrUnsupported }
