package stack

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"go.yaml.in/yaml/v4"
)

// policies are the parts of a template that say what becomes of a resource. Templates are in
// YAML or in JSON, which is YAML.
type policies struct {
	Resources map[string]struct {
		DeletionPolicy string `yaml:"DeletionPolicy"`
	} `yaml:"Resources"`
}

// retained are the logical IDs of the resources that CloudFormation keeps when it deletes
// the stack, by the template that the stack was made from.
func (m *Manager) retained(ctx context.Context, s *Stack) ([]string, error) {
	op := "read the template of stack " + s.Name
	out, err := ask(ctx, m, m.cf.GetTemplate, &cloudformation.GetTemplateInput{StackName: &s.ID, TemplateStage: types.TemplateStageOriginal})
	if err != nil {
		return nil, translate(op, err)
	}
	var p policies
	if err := yaml.Unmarshal([]byte(aws.ToString(out.TemplateBody)), &p); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	maps.DeleteFunc(p.Resources, func(_ string, r struct {
		DeletionPolicy string `yaml:"DeletionPolicy"`
	},
	) bool {
		return r.DeletionPolicy != "Retain" && r.DeletionPolicy != "RetainExceptOnCreate"
	})
	return slices.Collect(maps.Keys(p.Resources)), nil
}
