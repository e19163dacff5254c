//go:build conformance

package conformance_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// TestAWSCommandLine tests AWS's own program, which finds zae-limiter local through its
// printed environment.
func TestAWSCommandLine(t *testing.T) {
	t.Parallel()
	local := serve(t)
	for _, tt := range []struct {
		command string
		want    string // JSON, or the code of an error
	}{
		{"dynamodb create-table --table-name things --billing-mode PAY_PER_REQUEST --key-schema AttributeName=id,KeyType=HASH" +
			" --attribute-definitions AttributeName=id,AttributeType=S --query TableDescription.TableName", `"things"`},
		{"dynamodb wait table-exists --table-name things", ``},
		{"dynamodb list-tables", `{"TableNames": ["things"]}`},
		{
			`dynamodb put-item --table-name things --item {"id":{"S":"a"},"n":{"N":"007.50"}} --return-consumed-capacity TOTAL`,
			`{"ConsumedCapacity": {"TableName": "things", "CapacityUnits": 1}}`,
		},
		{
			"dynamodb scan --table-name things",
			`{"Items": [{"id": {"S": "a"}, "n": {"N": "7.5"}}], "Count": 1, "ScannedCount": 1, "ConsumedCapacity": null}`,
		},
		{
			`dynamodb put-item --table-name things --item {"id":{"S":"a"}} --condition-expression attribute_not_exists(id)`,
			"ConditionalCheckFailedException",
		},
		{"dynamodbstreams list-streams", `{"Streams": []}`},
		{"dynamodb list-tables --no-sign-request", "MissingAuthenticationTokenException"},
	} {
		cmd := exec.CommandContext(t.Context(), peers.AWS(t), strings.Fields(tt.command)...)
		cmd.Env = append(local.Environment, "PYTHONDONTWRITEBYTECODE=1", "HOME="+t.TempDir(), "AWS_MAX_ATTEMPTS=1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil && strings.Contains(stderr.String(), "("+tt.want+")") {
			continue
		}
		if err != nil {
			t.Fatalf("aws %s: %v\n%s", tt.command, err, &stderr)
		}
		if tt.want == "" && len(out) == 0 {
			continue
		}
		var got, want any
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("aws %s: %v: %s", tt.command, err, out)
		}
		_ = json.Unmarshal([]byte(tt.want), &want) // an error name is not JSON and equals nothing
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("aws %s (-want +got):\n%s", tt.command, diff)
		}
	}
}
