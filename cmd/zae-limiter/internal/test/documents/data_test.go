package documents_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest/customresource"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/doctest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/permissions"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A user who copies JSON or YAML from a document gets what its reader accepts.
func TestTheDataOfTheDocumentsIsRead(t *testing.T) {
	t.Parallel()
	for _, b := range doctest.Blocks(t, "../../../../..", doctest.Data, doctest.Schema, doctest.Policy) {
		read := map[doctest.Check]func(*testing.T, doctest.Block) error{
			doctest.Data: readYAML, doctest.Schema: readJSON, doctest.Policy: readPolicy,
		}[b.Check]
		if err := read(t, b); err != nil {
			t.Errorf("%s:%d: %v", b.Document, b.Line, err)
		}
	}
}

// readYAML reads a scenario, a manifest or a template by its own rules.
func readYAML(t *testing.T, b doctest.Block) error {
	t.Helper()
	var value map[string]any
	if err := yaml.Unmarshal([]byte(b.Text), &value); err != nil {
		return err
	}
	switch {
	case value["load"] != nil:
		_, err := scenario.Parse(b.Document, []byte(b.Text))
		return err
	case value["namespace"] != nil:
		_, err := manifest.Parse(b.Document, []byte(b.Text))
		return err
	case value["domains"] != nil:
		_, err := mapping.Parse(hot.Files{b.Document: []byte(b.Text)})
		return err
	case value["descriptors"] != nil:
		_, err := mapping.ParseReference(hot.Files{b.Document: []byte(b.Text)})
		return err
	case value["static_resources"] != nil:
		return readEnvoy(b.Text) // TestEnvoy of the service runs it
	case value["rate_limits"] != nil:
		return readRates(b.Text) // TestEnvoySettlesLeases runs it
	case value["Resources"] != nil:
		var template customresource.Template
		d := yaml.NewDecoder(strings.NewReader(b.Text))
		d.KnownFields(true)
		if err := d.Decode(&template); err != nil {
			return err
		}
		for name, r := range template.Resources {
			if err := apply(t, name, r.Type, r.Properties); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}
	return errors.New("the block is no scenario, no manifest and no template: say here how its reader reads it")
}

// rates are the rates of a route of Envoy.
type rates struct {
	Rates []struct {
		Hits struct{ Format string } `yaml:"hits_addend"`
	} `yaml:"rate_limits"`
}

// check checks that there is a rate with a fixed number: one whose hits Envoy cannot work out asks for nothing.
func (r rates) check() error {
	computed, fixed := 0, 0
	for _, rate := range r.Rates {
		if rate.Hits.Format != "" {
			computed++
		} else {
			fixed++
		}
	}
	if computed == 0 || fixed == 0 {
		return fmt.Errorf("%d rates have computed hits, and %d fixed ones: give both", computed, fixed)
	}
	return nil
}

func readRates(text string) error {
	var r rates
	if err := yaml.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	return r.check()
}

// readEnvoy checks the rates of a configuration of Envoy.
func readEnvoy(text string) error {
	var config struct {
		Static struct {
			Listeners []struct {
				Chains []struct {
					Filters []struct {
						Config struct {
							Routes struct {
								Hosts []struct {
									Routes []struct {
										Filters map[string]rates `yaml:"typed_per_filter_config"`
									}
								} `yaml:"virtual_hosts"`
							} `yaml:"route_config"`
						} `yaml:"typed_config"`
					}
				} `yaml:"filter_chains"`
			}
		} `yaml:"static_resources"`
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return err
	}
	return config.Static.Listeners[0].Chains[0].Filters[0].Config.Routes.Hosts[0].Routes[0].Filters["envoy.filters.http.ratelimit"].check()
}

// apply creates a custom resource, as CloudFormation does with a template.
func apply(t *testing.T, name, kind string, properties map[string]any) error {
	t.Helper()
	table, _ := properties["TableName"].(string)
	namespace, _ := properties["Namespace"].(string)
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: table}); err != nil {
		return err
	}
	namespaces, err := admin.NewNamespaces(dynamo.Options{API: engine, Table: table})
	if err != nil {
		return err
	}
	if _, err := namespaces.Register(t.Context(), namespace); err != nil {
		return err
	}
	var answer struct{ Status, Reason string }
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
			t.Error(err)
		}
	}))
	defer receiver.Close()
	handler, err := customresource.New(customresource.Options{API: engine})
	if err != nil {
		return err
	}
	properties["ServiceToken"] = "arn:aws:lambda:eu-west-1:123456789012:function:provisioner"
	event, err := json.Marshal(map[string]any{
		"RequestType": "Create", "ResponseURL": receiver.URL, "StackId": "arn:aws:cloudformation:eu-west-1:123456789012:stack/app/1", "RequestId": "1",
		"LogicalResourceId": name, "ResourceType": kind, "ResourceProperties": properties,
	})
	if err != nil {
		return err
	}
	if _, err := handler.Handle(t.Context(), event); err != nil {
		return err
	}
	if answer.Status != "SUCCESS" {
		return errors.New(answer.Reason)
	}
	return nil
}

// readJSON compares JSON with the schema that its mark names.
func readJSON(t *testing.T, b doctest.Block) error {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "..", "..", "..", b.Argument))
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(b.Text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// accepted matches an action of IAM.
var accepted = regexp.MustCompile(`^[a-z0-9-]+:[A-Z][A-Za-z]+$`)

// readPolicy reads a policy of IAM.
func readPolicy(_ *testing.T, b doctest.Block) error {
	var policy permissions.Document
	d := json.NewDecoder(bytes.NewReader([]byte(b.Text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&policy); err != nil {
		return err
	}
	if policy.Version != "2012-10-17" || len(policy.Statement) == 0 {
		return fmt.Errorf("the policy has the version %q and %d statements", policy.Version, len(policy.Statement))
	}
	for i, s := range policy.Statement {
		if s.Effect != "Allow" || len(s.Action) == 0 || s.Resource != "*" && !strings.HasPrefix(s.Resource, "arn:aws:") {
			return fmt.Errorf("statement %d allows nothing: %+v", i, s)
		}
		for _, action := range s.Action {
			if !accepted.MatchString(action) {
				return fmt.Errorf("statement %d: %q is no action", i, action)
			}
		}
	}
	return nil
}
