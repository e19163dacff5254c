package audit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// limitsSet returns the limits that each event set, oldest first.
func limitsSet(t *testing.T, s *dynamo.Store, entity string) (names []string) {
	t.Helper()
	for _, e := range fixture.Trail(t, s, entity) {
		limits, _ := e.Details["limits"].([]any)
		limit, _ := limits[0].(map[string]any)
		names = append(names, fmt.Sprint(limit["name"]))
	}
	return names
}

// Events of one millisecond keep the order in which they were made. So do events made
// after the clock was set back.
func TestEventIDsAreMonotonic(t *testing.T) {
	t.Parallel()
	instant := start
	f := faults.NewTap(fixture.NewTable(t))
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: fixture.AtOnce(f), Table: table, Now: func() time.Time { return instant }})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 60 {
		if i == 40 {
			instant = instant.Add(-time.Hour)
		}
		name := fmt.Sprintf("l%d", i)
		fixture.SetLimits(t, s, level, []store.Limit{limiter.PerMinute(name, 1)})
		want = append(want, name)
	}
	if diff := cmp.Diff(want, limitsSet(t, s, "user")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Stores of one process that use its clock give IDs in one order, however many they
// make in a millisecond.
func TestEventIDsAreMonotonicInAProcess(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	var stores []*dynamo.Store
	for range 3 {
		s, err := dynamo.Open(t.Context(), dynamo.Options{API: db, Table: table})
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, s)
	}
	var want []string
	for i := range 90 {
		name := fmt.Sprintf("l%d", i)
		fixture.SetLimits(t, stores[i%len(stores)], level, []store.Limit{limiter.PerMinute(name, 1)})
		want = append(want, name)
	}
	if diff := cmp.Diff(want, limitsSet(t, stores[0], "user")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// loses is a handler that loses the answer to the first transaction. The transaction is
// applied, and the connection breaks.
func loses(h http.Handler, transactions *int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Amz-Target") != "DynamoDB_20120810.TransactWriteItems" {
			h.ServeHTTP(w, r)
			return
		}
		if *transactions++; *transactions > 1 {
			h.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
}

// The client sends a creation again whose answer was lost. It remains one creation with
// one event, because the engine recognizes the token of the second request.
func TestACreationThatIsSentAgainIsOneEvent(t *testing.T) {
	t.Parallel()
	transactions := 0
	server := httptest.NewServer(loses(dynamolite.NewHandler(fixture.NewTable(t), dynamolite.HandlerOptions{Credentials: map[string]string{"AKID": "secret"}}), &transactions))
	t.Cleanup(server.Close)
	cfg := aws.Config{Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", "")}
	s, err := dynamo.Open(t.Context(), dynamo.Options{Table: table, Principal: "jo", API: dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		o.Retryer = retry.AddWithMaxBackoffDelay(o.Retryer, time.Millisecond)
	})})
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.CreateEntity(t.Context(), store.Entity{ID: "user"})
	if err != nil || e.ID != "user" || transactions != 2 {
		t.Fatalf("%+v, %v after %d transactions", e, err, transactions)
	}
	fixture.WantActions(t, s, "user", "entity_created")
	if got, err := s.Entity(t.Context(), "user"); err != nil || got.Incarnation != e.Incarnation {
		t.Errorf("the record is %+v, %v; created %+v", got, err, e)
	}
}

// A caller that is told that the answer was lost repeats the creation. It learns that
// the entity exists, and the trail has one event.
func TestACreationThatIsRepeatedIsOneEvent(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	s := fixture.OpenStore(t, faults.Wrap(db, faults.On(faults.LoseAnswer(context.DeadlineExceeded), faults.TransactWriteItems)))
	_, err := s.CreateEntity(t.Context(), store.Entity{ID: "user"})
	fixture.WantErr(t, err, store.ErrUnavailable)
	_, err = s.CreateEntity(t.Context(), store.Entity{ID: "user"})
	fixture.WantErr(t, err, store.ErrExists)
	_, err = fixture.OpenStore(t, db).CreateEntity(t.Context(), store.Entity{ID: "user"})
	fixture.WantErr(t, err, store.ErrExists)
	fixture.WantActions(t, s, "user", "entity_created")
}
