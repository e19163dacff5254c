package stack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// A Change is what a change set does to one resource.
type Change struct {
	Action     string // Add, Modify, Remove, Import or Dynamic
	LogicalID  string
	PhysicalID string // "" before the resource exists
	Type       string
	// Replacement is True, False or Conditional for a Modify, else "". Conditional means
	// that CloudFormation knows only while it executes the change.
	Replacement string
	// Scope has the kinds of attributes that change: Properties, Tags, Metadata.
	Scope   []string
	Details []Detail
}

// A Detail is one attribute that changes.
type Detail struct {
	Attribute string // Properties, Tags, …
	Name      string // of the property; "" for other attributes
	Recreates string // Never, Conditionally or Always
	Cause     string // the parameter or resource from which the change comes; may be ""
}

// LosesData reports whether the change removes or replaces data. A conditional replacement
// counts.
func (c Change) LosesData() bool {
	if !isData(c.LogicalID, c.Type) {
		return false
	}
	return c.Action == string(types.ChangeActionRemove) || c.Action == string(types.ChangeActionDynamic) ||
		c.Replacement == string(types.ReplacementTrue) || c.Replacement == string(types.ReplacementConditional)
}

// describe says what the change does, for an error.
func (c Change) describe() string {
	switch {
	case c.Action != string(types.ChangeActionModify):
		return fmt.Sprintf("%s %s (%s)", strings.ToLower(c.Action), c.LogicalID, c.Type)
	case c.Replacement == string(types.ReplacementConditional):
		return fmt.Sprintf("the change of %s (%s) may replace it, because of %s", c.LogicalID, c.Type, c.causes())
	}
	return fmt.Sprintf("the change of %s (%s) replaces it, because of %s", c.LogicalID, c.Type, c.causes())
}

// causes names the properties that recreate the resource.
func (c Change) causes() string {
	var names []string
	for _, d := range c.Details {
		if d.Recreates != string(types.RequiresRecreationNever) && d.Name != "" && !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	if len(names) == 0 {
		return "its definition"
	}
	return strings.Join(names, ", ")
}

func changeOf(r *types.ResourceChange) Change {
	c := Change{
		Action: string(r.Action), LogicalID: aws.ToString(r.LogicalResourceId), PhysicalID: aws.ToString(r.PhysicalResourceId),
		Type: aws.ToString(r.ResourceType), Replacement: string(r.Replacement),
	}
	for _, s := range r.Scope {
		c.Scope = append(c.Scope, string(s))
	}
	for _, d := range r.Details {
		if d.Target == nil {
			continue
		}
		c.Details = append(c.Details, Detail{
			string(d.Target.Attribute), aws.ToString(d.Target.Name), string(d.Target.RequiresRecreation), aws.ToString(d.CausingEntity),
		})
	}
	return c
}

// checkDataLoss refuses changes that lose data, except of the allowed resources.
func checkDataLoss(stack string, changes []Change, allowed []string) error {
	var refused []Change
	for _, c := range changes {
		if c.LosesData() && !slices.Contains(allowed, c.LogicalID) {
			refused = append(refused, c)
		}
	}
	if len(refused) > 0 {
		return &ReplacementError{stack, refused}
	}
	return nil
}
