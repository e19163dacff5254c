//go:build conformance

package permissions_test

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/permissions"
)

// An assumption asks for a session of a role, with the tag of a namespace.
type assumption struct {
	permissions.Request
	RequestTag string          `json:"requestTag,omitempty"`
	Trust      json.RawMessage `json:"trust"`
}

// trusts returns the trust policies of the roles for namespaces.
func trusts(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	options := deploy.Defaults()
	options.NamespaceRoles = true
	spec, err := deploy.New(options)
	if err != nil {
		t.Fatal(err)
	}
	var template struct {
		Resources map[string]struct {
			Properties struct {
				Trust any `yaml:"AssumeRolePolicyDocument"`
			} `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal([]byte(spec.Source()), &template); err != nil {
		t.Fatal(err)
	}
	all := map[string]json.RawMessage{}
	for _, role := range []string{"NamespaceAppRole", "NamespaceAdminRole", "NamespaceReadOnlyRole"} {
		text, err := json.Marshal(template.Resources[role].Properties.Trust)
		if err != nil {
			t.Fatal(err)
		}
		// AWS takes the number of an account for the ARN of its root.
		all[role] = json.RawMessage(strings.ReplaceAll(string(text), `"AWS::AccountId"`, `"arn:aws:iam::123456789012:root"`))
	}
	return all
}

// A session has the tag of its caller: a principal without a tag gets none, and none gets that
// of another namespace. The principal may assume every role.
func TestASessionGetsNoOtherNamespace(t *testing.T) {
	t.Parallel()
	var requests []assumption
	var want []bool
	for _, trust := range trusts(t) {
		for _, c := range []struct {
			caller, session string
			want            bool
		}{
			{"ns1", "ns1", true},
			{"ns1", "ns2", false},
			{"ns1", "ns10", false},
			{"ns1", "NS1", false},
			{"ns1", "ns*", false},
			{"ns1", "_", false},
			{"ns1", "", false},
			{"", "ns1", false},
			{"", "", false},
		} {
			for _, action := range []string{"sts:AssumeRole", "sts:TagSession"} {
				requests = append(requests, assumption{
					permissions.Request{Action: action, ARN: "arn:aws:iam::123456789012:role/limits-ns-app", Tag: c.caller}, c.session, trust,
				})
				want = append(want, c.want)
			}
		}
	}
	all := json.RawMessage(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:*","Resource":"*"}]}`)
	for i, got := range verdicts(t, []json.RawMessage{all}, requests) {
		if got[0] != want[i] {
			t.Errorf("a principal tagged %q asks %s for a session tagged %q: allowed %v", requests[i].Tag, requests[i].Action, requests[i].RequestTag, got[0])
		}
	}
}
