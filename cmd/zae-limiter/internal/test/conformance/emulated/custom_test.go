//go:build conformance

package emulated_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/store"
)

// told is what CloudFormation reads at a ResponseURL.
type told struct {
	Status, Reason     string
	PhysicalResourceID string `json:"PhysicalResourceId"`
	StackID            string `json:"StackId"`
	RequestID          string `json:"RequestId"`
	LogicalResourceID  string `json:"LogicalResourceId"`
	Data               map[string]string
}

// resource stands for CloudFormation: it sends the events of a custom resource, and receives
// the answers.
type resource struct {
	*function
	url     string
	answers chan []byte
	n       int
}

func newResource(t *testing.T) *resource {
	t.Helper()
	r := &resource{function: newFunction(t, "provisioner"), answers: make(chan []byte, 10)}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		// The address is signed for this method and no type of content.
		if err != nil || q.Method != http.MethodPut || q.Header.Get("Content-Type") != "" || q.URL.RawQuery != "signature=a%2Fb" {
			t.Errorf("%s %s %v: %v", q.Method, q.URL, q.Header, err)
		}
		r.answers <- body
	}))
	t.Cleanup(receiver.Close)
	r.url = receiver.URL + "/answer?signature=a%2Fb"
	return r
}

// send sends an event, and returns the answer at the ResponseURL.
func (r *resource) send(request, id, properties string) told {
	r.t.Helper()
	r.n++
	const stack, logical = "arn:aws:cloudformation:us-east-1:123456789012:stack/limits/1", "Limits"
	event := fmt.Sprintf(`{"RequestType":%q,"ResponseURL":%q,"StackId":%q,"RequestId":"request-%d","LogicalResourceId":%q,
		"PhysicalResourceId":%q,"ResourceType":"Custom::ZaeLimits","ResourceProperties":%s}`, request, r.url, stack, r.n, logical, id, properties)
	out, err := r.Invoke(r.t.Context(), []byte(event))
	if err != nil || string(out) != "null" {
		r.t.Fatalf("the function answers %s, %v; it wrote:\n%s", out, err, r.Log(r.t))
	}
	body := <-r.answers
	var a told
	if err := json.Unmarshal(body, &a); err != nil {
		r.t.Fatal(err)
	}
	if a.StackID != stack || a.LogicalResourceID != logical || a.RequestID != fmt.Sprint("request-", r.n) || a.PhysicalResourceID == "" || len(body) > 4096 {
		r.t.Errorf("%s is answered with %s", request, body)
	}
	return a
}

// CloudFormation sends every number as a string, and waits an hour for an answer.
func TestTheFunctionOfTheCustomResourceAnswersCloudFormation(t *testing.T) {
	t.Parallel()
	r := newResource(t)
	const properties = `{"ServiceToken":"arn","TableName":"limits","Namespace":"default","Resources":{"gpt-4":{"Limits":{"rpm":{"Capacity":"%s"}}}}}`
	declared := func(capacity string) string { return fmt.Sprintf(properties, capacity) }

	made := r.send("Create", "", declared("10"))
	if made.Status != "SUCCESS" || made.Data["Created"] != "1" {
		t.Errorf("created: %+v", made)
	}
	r.holds(10)
	if changed := r.send("Update", made.PhysicalResourceID, declared("20")); changed.Status != "SUCCESS" || changed.PhysicalResourceID != made.PhysicalResourceID {
		t.Errorf("changed: %+v, created as %s", changed, made.PhysicalResourceID)
	}
	r.holds(20)
	if wrong := r.send("Update", made.PhysicalResourceID, declared("many")); wrong.Status != "FAILED" || !strings.Contains(wrong.Reason, "many") {
		t.Errorf("a capacity that is no number: %+v", wrong)
	}
	r.holds(20)
	if gone := r.send("Delete", made.PhysicalResourceID, declared("20")); gone.Status != "SUCCESS" || gone.Data["Deleted"] != "1" {
		t.Errorf("deleted: %+v", gone)
	}
	r.holds(0)
	nowhere := strings.Replace(declared("1"), `"default"`, `"nobody"`, 1)
	failed := r.send("Create", "", nowhere)
	if failed.Status != "FAILED" || !strings.Contains(failed.Reason, "nobody") {
		t.Errorf("in a namespace that nobody registered: %+v", failed)
	}
	if gone := r.send("Delete", failed.PhysicalResourceID, nowhere); gone.Status != "SUCCESS" {
		t.Errorf("the deletion that follows holds the stack up: %+v", gone)
	}
}

// holds fails the test unless the resource's limit has a capacity, or is not there for 0.
func (r *resource) holds(capacity int64) {
	r.t.Helper()
	c, err := r.store.Limits(r.t.Context(), store.ConfigKey{Resource: "gpt-4"})
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	var got int64
	if err == nil && c != nil && len(c.Limits) == 1 {
		got = c.Limits[0].Capacity
	}
	if err != nil || got != capacity {
		r.t.Errorf("the capacity is %d, %v, want %d", got, err, capacity)
	}
}
