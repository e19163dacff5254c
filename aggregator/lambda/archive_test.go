package lambda_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/aggregator/lambda"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
)

// removal is the record of an audit event's deletion.
func removal(sequence, by, id, timestamp string) string {
	return fmt.Sprintf(`{"eventID": "%[1]s", "eventName": "REMOVE", "eventSource": "aws:dynamodb", "userIdentity": {"type": "Service", "principalId": "%[2]s"},
  "dynamodb": {"ApproximateCreationDateTime": 1700000000, "SequenceNumber": "%[1]s", "Keys": {"PK": {"S": "ns1/AUDIT#alice"}, "SK": {"S": "#AUDIT#%[3]s"}},
   "OldImage": {"PK": {"S": "ns1/AUDIT#alice"}, "SK": {"S": "#AUDIT#%[3]s"}, "action": {"S": "limits_set"}, "timestamp": {"S": "%[4]s"}, "ttl": {"N": "1"},
    "principal": {"NULL": true}, "details": {"M": {"limits": {"L": [{"M": {"capacity": {"N": "10"}}}]}}}}}}`, sequence, by, id, timestamp)
}

// shelf fails for the given days.
type shelf struct {
	fail string
	got  []string
}

func (s *shelf) Put(_ context.Context, day time.Time, events []audit.TrailEvent) (int, error) {
	if day.Format(time.DateOnly) == s.fail {
		return 0, errors.New("not now")
	}
	for _, e := range events {
		s.got = append(s.got, fmt.Sprint(e.NamespaceID, e.Entity, e.ID, e.Details))
	}
	return 42, nil
}

// Expired events are archived and measured. The answer names the events that were not
// stored, and those that cannot be read. Lambda delivers only the named ones again.
func TestAnEventOfExpiredEvents(t *testing.T) {
	t.Parallel()
	const sweep = "dynamodb.amazonaws.com"
	s := &shelf{fail: "2026-01-03"}
	a, err := aggregator.New(func(context.Context, string) (aggregator.Namespace, error) {
		return aggregator.Namespace{}, errors.New("no namespace is needed")
	}, aggregator.Options{Archive: s})
	if err != nil {
		t.Fatal(err)
	}
	var e events.DynamoDBEvent
	if err := json.Unmarshal([]byte(`{"Records": [`+strings.Join([]string{
		removal("1", sweep, "a", "2026-01-02T03:04:05Z"), removal("2", sweep, "b", "2026-01-03T03:04:05Z"),
		removal("3", "AIDAPERSON", "c", "2026-01-02T03:04:05Z"), removal("4", sweep, "d", "soon"),
	}, ",")+`]}`), &e); err != nil {
		t.Fatal(err)
	}
	var metrics bytes.Buffer
	out, err := lambda.New(a, lambda.Options{Table: "limits", Metrics: &metrics}).Handle(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, f := range out.BatchItemFailures {
		failed = append(failed, f.ItemIdentifier)
	}
	if want := []string{"2", "4"}; !slices.Equal(failed, want) {
		t.Errorf("failed %q, want %q", failed, want)
	}
	if want := []string{"ns1alice" + "a" + "map[limits:[map[capacity:10]]]"}; !slices.Equal(s.got, want) {
		t.Errorf("archived %q, want %q", s.got, want)
	}
	for _, want := range []string{`"ArchivedEvents":1`, `"ArchivedBytes":42`, `"FailedRecords":1`, `"PoisonedRecords":1`, `{"Name":"ArchivedBytes","Unit":"Bytes"}`} {
		if !strings.Contains(metrics.String(), want) {
			t.Errorf("no %s in %s", want, &metrics)
		}
	}
}
