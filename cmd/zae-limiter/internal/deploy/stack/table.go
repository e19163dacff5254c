package stack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/template"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Shape is what a table has, and what the options of its stack must say so that the stack
// declares the table as it is.
type Shape struct {
	// LocalIndexes says that the table has local indexes, and GSI2All that its index GSI2 has
	// all attributes. No update can change that.
	LocalIndexes, GSI2All bool
	Provisioned           bool // throughput is provisioned, and not paid by request
	DeletionProtection    bool
	KeyARN                string // of the key that encrypts the table; "" is one that AWS owns
}

// Shape reads the shape of a table, so that the parameters of an adopted stack or table keep
// it. A table that does not exist has the zero Shape.
func (m *Manager) Shape(ctx context.Context, s *Stack) (Shape, error) {
	t, err := m.describe(ctx, m.table(s).Table)
	if err != nil || t == nil {
		return Shape{}, err
	}
	return Shape{
		LocalIndexes: len(t.LocalSecondaryIndexes) > 0, DeletionProtection: aws.ToBool(t.DeletionProtectionEnabled),
		Provisioned: billingOf(t) == string(types.BillingModeProvisioned), KeyARN: keyOf(t),
		GSI2All: slices.ContainsFunc(t.GlobalSecondaryIndexes, func(ix types.GlobalSecondaryIndexDescription) bool {
			return aws.ToString(ix.IndexName) == "GSI2" && ix.Projection != nil && ix.Projection.ProjectionType == types.ProjectionTypeAll
		}),
	}, nil
}

// describe describes a table, nil if there is none.
func (m *Manager) describe(ctx context.Context, table string) (*types.TableDescription, error) {
	out, err := m.o.Clients.Database.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	if isNoTable(err) {
		return nil, nil //nolint:nilnil // its absence is an answer
	}
	if err != nil {
		return nil, translate("describe table "+table, err)
	}
	return out.Table, nil
}

// billingOf is how a table is billed. DynamoDB says nothing of one that was always provisioned.
func billingOf(t *types.TableDescription) string {
	if t.BillingModeSummary == nil {
		return string(types.BillingModeProvisioned)
	}
	return cmp.Or(string(t.BillingModeSummary.BillingMode), string(types.BillingModeProvisioned))
}

func keyOf(t *types.TableDescription) string {
	if t.SSEDescription == nil {
		return ""
	}
	return aws.ToString(t.SSEDescription.KMSMasterKeyArn)
}

// A tableForm is a table in words: what a template declares, or what there is. The keys name
// what an import takes over from the template without looking at the table.
type tableForm map[string]string

const (
	none         = "none"
	facetBilling = "billing"
	facetExpiry  = "the attribute of time to live"
	facetKey     = "the key of KMS"
	facetProtect = "deletion protection"
	facetStream  = "the view of the stream"
)

// remedies say what to do about a difference. NAME stands for the table.
var remedies = map[string]string{
	facetBilling: "give or leave out --provisioned, and change the billing with a later deployment",
	facetExpiry: "enable it with aws dynamodb update-time-to-live --table-name NAME " +
		"--time-to-live-specification Enabled=true,AttributeName=ttl",
	facetKey:     "leave out --kms-key, and change the key with a later deployment",
	facetProtect: "leave out the flag, and change it with a later deployment",
	facetStream:  "enable it with zae-limiter table enable-stream -n NAME",
	"GSI2":       "leave out --gsi2-projection",
}

// formOf are the words for what DescribeTable tells, and a template declares alike.
func formOf(t *types.TableDescription) tableForm {
	f := tableForm{"the key": keySchemaOf(t.KeySchema), facetProtect: onOff(aws.ToBool(t.DeletionProtectionEnabled)), facetStream: none}
	for _, a := range t.AttributeDefinitions {
		f["the type of "+aws.ToString(a.AttributeName)] = string(a.AttributeType)
	}
	for _, ix := range t.GlobalSecondaryIndexes {
		f[aws.ToString(ix.IndexName)] = "a global index of " + indexOf(ix.KeySchema, ix.Projection)
	}
	for _, ix := range t.LocalSecondaryIndexes {
		f[aws.ToString(ix.IndexName)] = "a local index of " + indexOf(ix.KeySchema, ix.Projection)
	}
	return f
}

func keySchemaOf(elements []types.KeySchemaElement) string {
	var names []string
	for _, e := range elements {
		names = append(names, aws.ToString(e.AttributeName))
	}
	return strings.Join(names, " and ")
}

func indexOf(key []types.KeySchemaElement, p *types.Projection) string {
	if p == nil {
		return keySchemaOf(key)
	}
	return keySchemaOf(key) + " with " + string(p.ProjectionType)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// tableNow is a table as it is. unusable says why it cannot be adopted as any table, "" if it
// can.
func (m *Manager) tableNow(ctx context.Context, name string) (f tableForm, unusable string, err error) {
	t, err := m.describe(ctx, name)
	switch {
	case err != nil:
		return nil, "", err
	case t == nil:
		return nil, "", &store.NotFoundError{Kind: "table", Name: name, Hint: "there is nothing to adopt: deploy without --adopt-table"}
	case t.TableStatus != types.TableStatusActive:
		unusable = "it is " + string(t.TableStatus) + ": wait until it is ACTIVE"
	case len(t.Replicas) > 0:
		unusable = "it is a global table, which is another type of resource: remove its replicas"
	}
	f = formOf(t)
	f[facetBilling], f[facetKey] = billingOf(t), cmp.Or(keyOf(t), none)
	if s := t.StreamSpecification; s != nil && aws.ToBool(s.StreamEnabled) {
		f[facetStream] = string(s.StreamViewType)
	}
	f[facetExpiry] = none
	ttl, err := m.o.Clients.Database.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		return nil, "", translate("describe table "+name, err)
	}
	if d := ttl.TimeToLiveDescription; d != nil && strings.HasPrefix(string(d.TimeToLiveStatus), "ENABL") {
		f[facetExpiry] = aws.ToString(d.AttributeName)
	}
	return f, unusable, nil
}

// declaredTable is the table of a spec.
func declaredTable(s Spec) (tableForm, error) {
	of, err := s.scope()
	if err != nil {
		return nil, err
	}
	var properties any
	for _, r := range of.Resources {
		if r.ID == TableID {
			properties = template.Typed(of.Eval(r.Properties))
		}
	}
	// The names of a template are those of the API.
	var d struct {
		types.TableDescription
		BillingMode             string
		TimeToLiveSpecification struct{ AttributeName string }
		SSESpecification        struct{ KMSMasterKeyId string } //nolint:revive,staticcheck // the name is CloudFormation's
	}
	text, err := json.Marshal(properties)
	if err := errors.Join(of.Err(), err, json.Unmarshal(text, &d)); err != nil {
		return nil, fmt.Errorf("read table %s in the template of stack %s: %w", TableID, s.Name, err)
	}
	f := formOf(&d.TableDescription)
	f[facetBilling] = cmp.Or(d.BillingMode, string(types.BillingModeProvisioned))
	f[facetExpiry], f[facetKey] = cmp.Or(d.TimeToLiveSpecification.AttributeName, none), cmp.Or(d.SSESpecification.KMSMasterKeyId, none)
	if d.StreamSpecification != nil {
		f[facetStream] = cmp.Or(string(d.StreamSpecification.StreamViewType), none)
	}
	return f, nil
}

// differences say in what a table differs from what is declared, and what to do.
func (f tableForm) differences(table string, has tableForm) (all []string) {
	names := maps.Clone(f)
	maps.Copy(names, has)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		is, want := cmp.Or(has[name], none), cmp.Or(f[name], none)
		if is == want {
			continue
		}
		text := fmt.Sprintf("%s is %s, and not %s", name, is, want)
		if remedy := remedies[name]; remedy != "" {
			text += " (" + strings.ReplaceAll(remedy, "NAME", table) + ")"
		}
		all = append(all, text)
	}
	return all
}
