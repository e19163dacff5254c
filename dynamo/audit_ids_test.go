package dynamo_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// limitsSet returns the limits that each event set, oldest first.
func limitsSet(t *testing.T, s *dynamo.Store, entity string) (names []string) {
	t.Helper()
	for _, e := range trail(t, s, entity) {
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
	f := faults.NewTap(newTable(t))
	s, err := dynamo.Open(t.Context(), dynamo.Following(dynamo.Options{API: f, Table: table, Now: func() time.Time { return instant }}))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 60 {
		if i == 40 {
			instant = instant.Add(-time.Hour)
		}
		name := fmt.Sprintf("l%d", i)
		setLimits(t, s, levels[0], []store.Limit{limiter.PerMinute(name, 1)})
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
	db := newTable(t)
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
		setLimits(t, stores[i%len(stores)], levels[0], []store.Limit{limiter.PerMinute(name, 1)})
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
	d := newDesk(t, loses(dynamolite.NewHandler(newTable(t), dynamolite.HandlerOptions{Credentials: secrets}), &transactions)).started()
	cfg := clientConfig(d.URL)
	s, err := dynamo.Open(t.Context(), dynamo.Options{Table: table, Principal: "jo", API: dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		o.Retryer = impatient{o.Retryer}
	})})
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.CreateEntity(t.Context(), store.Entity{ID: "user"})
	if err != nil || e.ID != "user" || transactions != 2 {
		t.Fatalf("%+v, %v after %d transactions", e, err, transactions)
	}
	wantActions(t, s, "user", "entity_created")
	if got, err := s.Entity(t.Context(), "user"); err != nil || got.Incarnation != e.Incarnation {
		t.Errorf("the record is %+v, %v; created %+v", got, err, e)
	}
}

// A caller that is told that the answer was lost repeats the creation. It learns that
// the entity exists, and the trail has one event.
func TestACreationThatIsRepeatedIsOneEvent(t *testing.T) {
	t.Parallel()
	db := newTable(t)
	s := openStore(t, faults.Wrap(db, faults.On(faults.LoseAnswer(context.DeadlineExceeded), faults.TransactWriteItems)))
	_, err := s.CreateEntity(t.Context(), store.Entity{ID: "user"})
	wantErr(t, err, store.ErrUnavailable)
	_, err = s.CreateEntity(t.Context(), store.Entity{ID: "user"})
	wantErr(t, err, store.ErrExists)
	_, err = openStore(t, db).CreateEntity(t.Context(), store.Entity{ID: "user"})
	wantErr(t, err, store.ErrExists)
	wantActions(t, s, "user", "entity_created")
}
