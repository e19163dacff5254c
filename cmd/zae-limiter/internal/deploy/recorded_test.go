package deploy_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updatePolicies = flag.Bool("update.policies", false, "write the policies to the file that the judge of permissions reads")

// recordedPolicies has the policies of the template, by the names that documents use.
const recordedPolicies = "../test/permissions/recorded/policies.json"

// arns are the ARNs of the resources that the policies name.
var arns = strings.NewReplacer(
	"<RateLimitsTable>.Arn", "arn:aws:dynamodb:eu-west-1:123456789012:table/limits",
	"<RateLimitsTable>.StreamArn", "arn:aws:dynamodb:eu-west-1:123456789012:table/limits/stream/2026-01-02T03:04:05.678",
	"<AggregatorDLQ>.Arn", "arn:aws:sqs:eu-west-1:123456789012:limits-aggregator-dlq",
	"<AuditArchiveBucket>.Arn", "arn:aws:s3:::trail",
	"<AggregatorLogGroup>.Arn", "arn:aws:logs:eu-west-1:123456789012:log-group:/aws/lambda/limits-aggregator:*",
	"<ProvisionerLogGroup>.Arn", "arn:aws:logs:eu-west-1:123456789012:log-group:/aws/lambda/limits-limits-provisioner:*",
)

// The judge of permissions reads the policies as the template has them now.
func TestTheJudgedPoliciesAreThoseOfTheTemplate(t *testing.T) {
	t.Parallel()
	s := newStack(t, withCode())
	documents := map[string]any{}
	for name, resource := range map[string]string{
		"acq": "AcquireOnlyPolicy", "full": "FullAccessPolicy", "read": "ReadOnlyPolicy",
		"ns-acq": "NamespaceAcquirePolicy", "ns-full": "NamespaceFullAccessPolicy", "ns-read": "NamespaceReadOnlyPolicy",
		"aggregator": "AggregatorRole", "provisioner": "ProvisionerRole",
	} {
		documents[name] = map[string]any{"Version": "2012-10-17", "Statement": s.statements(resource)}
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "\t")
	if err := e.Encode(documents); err != nil {
		t.Fatal(err)
	}
	got := arns.Replace(text.String())
	if strings.Contains(got, "<") {
		t.Errorf("a policy names a resource without an ARN here:\n%s", got)
	}
	if *updatePolicies {
		if err := os.WriteFile(recordedPolicies, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(recordedPolicies)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the policies have changed; make permissions judges them (-recorded +template):\n%s", diff)
	}
}
