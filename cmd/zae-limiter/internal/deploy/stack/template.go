package stack

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/template"
)

// retained are the logical IDs of the resources that CloudFormation keeps when it deletes
// the stack, by the template that the stack was made from.
func (m *Manager) retained(ctx context.Context, s *Stack) (ids []string, err error) {
	op := "read the template of stack " + s.Name
	out, err := ask(ctx, m, m.cf.GetTemplate, &cloudformation.GetTemplateInput{StackName: &s.ID, TemplateStage: types.TemplateStageOriginal})
	if err != nil {
		return nil, translate(op, err)
	}
	t, err := template.Parse(aws.ToString(out.TemplateBody))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	for _, r := range t.Resources {
		if r.Retained() {
			ids = append(ids, r.ID)
		}
	}
	return ids, nil
}
