package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/store"
)

// On AWS Lambda, the program sets the limits that a custom resource declares, and tells
// CloudFormation.
func provisionsLambda(t *testing.T, bin string) {
	t.Helper()
	w := newTaken(t, bin)
	told := make(chan string, 1)
	cloud := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told <- r.Method + " " + string(body)
	}))
	t.Cleanup(cloud.Close)
	event, err := json.Marshal(map[string]any{
		"RequestType": "Create", "ResourceType": "Custom::ZaeLimits", "ResponseURL": cloud.URL, "StackId": "stack", "RequestId": "one",
		"LogicalResourceId": "Limits",
		"ResourceProperties": map[string]any{
			"TableName": streamed, "Namespace": "default",
			"Resources": map[string]any{"claude": map[string]any{"Limits": map[string]any{"rpm": map[string]any{"Capacity": "70"}}}},
		},
	})
	w.must(err)
	api := &runtimeAPI{events: []string{string(event)}, answers: make(chan string, 1)}
	lambda := httptest.NewServer(api)
	t.Cleanup(lambda.Close)
	end := w.run(newLines(), []string{
		"AWS_LAMBDA_RUNTIME_API=" + strings.TrimPrefix(lambda.URL, "http://"), "_HANDLER=provisioner", "TABLE_NAME=" + streamed,
		"AWS_ENDPOINT_URL_DYNAMODB=" + w.url,
	}, bin)
	if answer := <-told; !strings.HasPrefix(answer, "PUT ") || !strings.Contains(answer, `"Status":"SUCCESS"`) {
		t.Errorf("CloudFormation was told %s", answer)
	}
	if answer := <-api.answers; !strings.HasSuffix(answer, "/response null") {
		t.Errorf("Lambda was told %s", answer)
	}
	c, err := w.store.Limits(w.Context(), store.ConfigKey{Resource: "claude"})
	w.must(err)
	if len(c.Limits) != 1 || c.Limits[0].Capacity != 70 {
		t.Errorf("the resource has %v", c.Limits)
	}
	if err := end(); err != nil {
		t.Errorf("ended by Lambda: %v", err)
	}
}
