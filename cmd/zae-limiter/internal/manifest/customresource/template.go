package customresource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/store"
)

// Types of the custom resource: this library's, and the peer's.
const (
	Type     = "Custom::ZaeLimits"
	PeerType = "Custom::ZaeLimiterLimits"
)

// A Template is a CloudFormation template with one custom resource.
type Template struct {
	Version   string              `json:"AWSTemplateFormatVersion" yaml:"AWSTemplateFormatVersion"` // version of the form of templates
	Resources map[string]resource `json:"Resources" yaml:"Resources"`                               // resources by name
}

// A resource is a resource of the template.
type resource struct {
	Type       string         `json:"Type" yaml:"Type"`             // type of the resource
	Properties map[string]any `json:"Properties" yaml:"Properties"` // properties of the resource
}

// NewTemplate returns a template that applies a manifest to a table. The stack of the
// table, which has the table's name, exports the function that does it.
func NewTemplate(m *manifest.Manifest, table string) *Template {
	resources, entities := map[string]any{}, map[string]any{}
	p := map[string]any{
		"ServiceToken": map[string]any{"Fn::ImportValue": table + "-ProvisionerArn"},
		"TableName":    table, "Namespace": m.Namespace, "Name": m.Name,
	}
	for _, k := range m.Keys() {
		level := levelProperties(m.Levels[k])
		switch {
		case k.Entity != "":
			of := member(entities, k.Entity)
			if k.Resource == "" {
				maps.Copy(of, level) // the entity's record
				break
			}
			member(of, "Resources")[k.Resource] = level
		case k.Resource != "":
			resources[k.Resource] = level
		default:
			p["System"] = level
		}
	}
	if len(resources) > 0 {
		p["Resources"] = resources
	}
	if len(entities) > 0 {
		p["Entities"] = entities
	}
	return &Template{"2010-09-09", map[string]resource{"Limits": {Type, p}}}
}

// member is the object below a key of another one, made if there is none.
func member(of map[string]any, key string) map[string]any {
	m, ok := of[key].(map[string]any)
	if !ok {
		m = map[string]any{}
		of[key] = m
	}
	return m
}

func levelProperties(l manifest.Level) map[string]any {
	p := map[string]any{}
	if l.OnUnavailable != "" {
		p["OnUnavailable"] = string(l.OnUnavailable)
	}
	if disabled, until := l.Switch(); disabled != nil {
		p["Disabled"] = disabled
		if until != "" {
			p["Until"] = until
		}
	}
	if l.Cascade != store.Inherit {
		p["Cascade"] = l.Cascade == store.Yes
	}
	if slots := l.SlotNumbers(); slots != nil {
		p["Slots"] = slots
	}
	if l.Parent != nil {
		p["Parent"] = *l.Parent
	}
	limits := map[string]any{}
	for i := range l.Limits {
		limits[l.Limits[i].Name] = limitProperties(&l.Limits[i])
	}
	if len(limits) > 0 {
		p["Limits"] = limits
	}
	return p
}

func limitProperties(l *store.Limit) map[string]any {
	of := map[string]any{"Capacity": l.Capacity, "RefillAmount": l.Amount, "RefillPeriod": int64(l.Period / time.Second)}
	if r := l.Renews; r != nil {
		of = map[string]any{"Quota": l.Capacity, "Renews": r.String()}
		if zone := r.Zone(); zone != "" {
			of["Zone"] = zone
		}
	}
	if l.Carries.Rollover != 0 {
		of["Rollover"] = l.Carries.Rollover
	}
	if l.Carries.Debt {
		of["CarryDebt"] = true
	}
	if l.Soft {
		of["Soft"] = true
	}
	if l.Mode != store.Enforce {
		of["Mode"] = l.ModeText()
	}
	if l.Returns != 0 {
		of["Returns"] = l.Returns
	}
	if l.Varies != nil {
		of["Schedule"] = scheduleProperty(l.Varies)
	}
	return of
}

// scheduleProperty is a schedule as the peer's template has it.
func scheduleProperty(s *store.Schedule) (entries []map[string]any) {
	for _, c := range s.Changes() {
		entry := map[string]any{"Tz": s.Zone()}
		if c.Until != 0 {
			entry["Until"] = time.UnixMilli(c.Until).UTC().Format(time.RFC3339Nano)
		} else {
			entry["Cron"] = c.Cron
		}
		if c.Permille != 0 {
			entry["Scale"] = json.Number(c.Scale())
		}
		for name, v := range map[string]int64{"Capacity": c.Capacity, "RefillAmount": c.Amount, "RefillPeriodSeconds": c.Seconds} {
			if v != 0 {
				entry[name] = v
			}
		}
		entries = append(entries, entry)
	}
	return entries
}

// YAML is the template as a file.
func (t *Template) YAML() ([]byte, error) {
	var b bytes.Buffer
	const indent = 2
	e := yaml.NewEncoder(&b)
	e.SetIndent(indent)
	if err := e.Encode(t); err != nil {
		return nil, fmt.Errorf("encode the template: %w", err)
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("encode the template: %w", err)
	}
	return b.Bytes(), nil
}

// propertiesOf reads the properties that are not the manifest's.
func propertiesOf(raw json.RawMessage) (p properties, err error) {
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, fmt.Errorf("read the properties: %w", err)
	}
	return p, nil
}
