package lambda_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/aggregator/lambda"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

// An event as AWS Lambda sends it: two deletions of buckets of two users, one item that no version can
// read, an entity's record, and an expired audit event.
const event = `{"Records": [
 {"eventID": "1", "eventName": "REMOVE", "eventSource": "aws:dynamodb", "dynamodb": {"ApproximateCreationDateTime": 1700000000, "SequenceNumber": "100000000000000000001",
  "Keys": {"PK": {"S": "ns1/BUCKET#alice#gpt-4#0"}, "SK": {"S": "#STATE"}},
  "OldImage": {"PK": {"S": "ns1/BUCKET#alice#gpt-4#0"}, "SK": {"S": "#STATE"}, "rf": {"N": "1700000000000"}, "created": {"N": "1690000000000"}, "dh": {"N": "472222"}, "dn": {"N": "1"},
   "b_rpm_tk": {"N": "59000"}, "b_rpm_cp": {"N": "60000"}, "b_rpm_ra": {"N": "60000"}, "b_rpm_rp": {"N": "60000"}, "b_rpm_tc": {"N": "1000"}}}},
 {"eventID": "2", "eventName": "REMOVE", "eventSource": "aws:dynamodb", "userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"},
  "dynamodb": {"ApproximateCreationDateTime": 1700000000.5, "SequenceNumber": "100000000000000000002",
  "Keys": {"PK": {"S": "ns2/BUCKET#bob#gpt-4#0"}, "SK": {"S": "#STATE"}},
  "OldImage": {"PK": {"S": "ns2/BUCKET#bob#gpt-4#0"}, "SK": {"S": "#STATE"}, "rf": {"N": "1700000000000"}, "dh": {"N": "472222"}, "dn": {"N": "3"}, "do_": {"N": "2"},
   "do_rpm": {"N": "1000"}, "dc": {"N": "472220"}, "dp_": {"N": "2"}, "dp_rpm": {"N": "1000"}, "dt": {"S": "[,rpm]a4d6:1=;"},
   "b_rpm_tk": {"N": "54000"}, "b_rpm_cp": {"N": "60000"}, "b_rpm_ra": {"N": "60000"}, "b_rpm_rp": {"N": "60000"}, "b_rpm_tc": {"N": "6000"}}}},
 {"eventID": "3", "eventName": "INSERT", "eventSource": "aws:dynamodb", "dynamodb": {"ApproximateCreationDateTime": 1700000000, "SequenceNumber": "100000000000000000003",
  "Keys": {"PK": {"S": "ns1/BUCKET#eve#gpt-4#0"}, "SK": {"S": "#STATE"}},
  "NewImage": {"PK": {"S": "ns1/BUCKET#eve#gpt-4#0"}, "SK": {"S": "#STATE"}, "rf": {"S": "soon"}}}},
 {"eventID": "4", "eventName": "INSERT", "eventSource": "aws:dynamodb", "dynamodb": {"ApproximateCreationDateTime": 1700000000, "SequenceNumber": "100000000000000000004",
  "Keys": {"PK": {"S": "ns1/ENTITY#alice"}, "SK": {"S": "#META"}},
  "NewImage": {"PK": {"S": "ns1/ENTITY#alice"}, "SK": {"S": "#META"}, "parent_id": {"NULL": true}, "metadata": {"M": {}}}}},
 {"eventID": "5", "eventName": "REMOVE", "eventSource": "aws:dynamodb", "userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"},
  "dynamodb": {"ApproximateCreationDateTime": 1700000000, "SequenceNumber": "100000000000000000005",
  "Keys": {"PK": {"S": "ns1/AUDIT#alice"}, "SK": {"S": "#AUDIT#1"}},
  "OldImage": {"PK": {"S": "ns1/AUDIT#alice"}, "SK": {"S": "#AUDIT#1"}, "details": {"M": {"all": {"L": [{"BOOL": true}, {"N": "1"}, {"SS": ["a"]}, {"NS": ["1"]}, {"B": "AQ=="}, {"BS": ["AQ=="]}]}}}}}}
]}`

// pages are the hours that a handler has saved.
type pages struct {
	mu   sync.Mutex
	fail string
	got  []string
}

func (u *pages) Save(_ context.Context, all ...usage.Diary) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, d := range all {
		if d.Entity == u.fail {
			return errors.New("not now")
		}
		u.got = append(u.got, fmt.Sprintf("%s %d %s", d.Entity, d.Life, d.Text))
	}
	slices.Sort(u.got)
	return nil
}

func handle(t *testing.T, u *pages, metrics *bytes.Buffer) []string {
	t.Helper()
	now := func() time.Time { return time.Unix(1700000007, 0) }
	a, err := aggregator.New(func(context.Context, string) (aggregator.Namespace, error) {
		return aggregator.Namespace{Usage: u}, nil
	}, aggregator.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	var e events.DynamoDBEvent
	if err := json.Unmarshal([]byte(event), &e); err != nil {
		t.Fatal(err)
	}
	out, err := lambda.New(a, lambda.Options{Table: "limits", Metrics: metrics, Now: now}).Handle(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, f := range out.BatchItemFailures {
		failed = append(failed, f.ItemIdentifier)
	}
	return failed
}

// The answer names exactly the failed records, by sequence number (the peer's defect 13);
// the rest is processed.
func TestAnEvent(t *testing.T) {
	t.Parallel()
	var metrics bytes.Buffer
	u := &pages{fail: "bob"}
	failed := handle(t, u, &metrics)
	if want := []string{"100000000000000000002", "100000000000000000003"}; !slices.Equal(failed, want) {
		t.Errorf("failed %v, want %v", failed, want)
	}
	if want := []string{"alice 1690000000000 [,rpm]a4da:1=;"}; !slices.Equal(u.got, want) {
		t.Errorf("got %q, want %q", u.got, want)
	}
	u = &pages{}
	if failed = handle(t, u, &metrics); len(failed) != 1 || len(u.got) != 2 || u.got[1] != "bob 0 [,rpm]a4d6:1=;2:2,1;2:1,5;" {
		t.Errorf("failed %v, got %q", failed, u.got)
	}
}

// embedded returns what a line in the embedded format declares, and all that it has.
func embedded(t *testing.T, line []byte) (declared map[string]float64, values map[string]any) {
	t.Helper()
	var got struct {
		AWS struct {
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
		Table string
	}
	declared, values = map[string]float64{}, map[string]any{}
	if err := errors.Join(json.Unmarshal(line, &got), json.Unmarshal(line, &values)); err != nil {
		t.Fatal(err)
	}
	if got.Table != "limits" || len(got.AWS.CloudWatchMetrics) != 1 || got.AWS.CloudWatchMetrics[0].Namespace != lambda.DefaultNamespace {
		t.Fatalf("%s", line)
	}
	for _, m := range got.AWS.CloudWatchMetrics[0].Metrics {
		v, ok := values[m.Name].(float64)
		if !ok || m.Unit == "" {
			t.Errorf("%s is declared and not there", m.Name)
		}
		declared[m.Name] = v
	}
	return declared, values
}

// A line for each batch declares its metrics.
func TestMetricsAreInTheEmbeddedFormat(t *testing.T) {
	t.Parallel()
	var metrics bytes.Buffer
	handle(t, &pages{fail: "bob"}, &metrics)
	if bytes.Count(metrics.Bytes(), []byte("\n")) != 1 {
		t.Fatalf("%s", &metrics)
	}
	declared, values := embedded(t, metrics.Bytes())
	if head, _ := values["_aws"].(map[string]any); head["Timestamp"] != 1700000007000.0 || len(declared) != len(values)-2 {
		t.Errorf("%v of %v", declared, values)
	}
	for name, want := range map[string]float64{"BatchSize": 5, "Lag": 7000, "Pages": 1, "FailedRecords": 1, "PoisonedRecords": 1, "Refills": 0, "Merges": 0} {
		if declared[name] != want {
			t.Errorf("%s is %v, want %v", name, declared[name], want)
		}
	}
}
