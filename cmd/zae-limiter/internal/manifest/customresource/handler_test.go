package customresource_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest/customresource"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// An answer is what CloudFormation receives.
type answer struct {
	Status, Reason, PhysicalResourceId, StackId, RequestId, LogicalResourceId string //nolint:staticcheck // CloudFormation's spelling
	Data                                                                      map[string]string
}

// A stack is CloudFormation: it sends events about one resource, and receives answers.
type stack struct {
	*testbed.World
	receiver *httptest.Server
	kind     string
	stack    string
	log      bytes.Buffer

	mu      sync.Mutex
	fails   int // how many answers the receiver refuses first
	code    int
	answers []string
}

func newStack(t *testing.T) *stack {
	t.Helper()
	s := &stack{World: testbed.New(t, testbed.Options{}), kind: customresource.Type, stack: "app", code: http.StatusServiceUnavailable}
	s.receiver = httptest.NewServer(http.HandlerFunc(s.receive))
	t.Cleanup(s.receiver.Close)
	return s
}

func (s *stack) receive(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if types, there := r.Header["Content-Type"]; r.Method != http.MethodPut || there && types[0] != "" || r.ContentLength <= 0 {
		s.Errorf("got %s with %v, %d bytes", r.Method, r.Header, r.ContentLength)
	}
	body, err := io.ReadAll(r.Body)
	s.Check(err)
	if s.fails > 0 {
		s.fails--
		w.WriteHeader(s.code)
		return
	}
	s.answers = append(s.answers, string(body))
}

// send sends an event, and returns the only answer.
func (s *stack) send(ctx context.Context, api dynamo.API, request, physical, properties string) answer {
	s.Helper()
	s.answers = nil
	s.Must(s.try(ctx, api, request, physical, properties))
	if len(s.answers) != 1 || len(s.answers[0]) > 4096 {
		s.Fatalf("got %d answers: %v", len(s.answers), s.answers)
	}
	var a answer
	s.Must(json.Unmarshal([]byte(s.answers[0]), &a))
	if a.StackId == "" || a.RequestId != "req-1" || a.LogicalResourceId != "Limits" || a.PhysicalResourceId == "" {
		s.Errorf("got %+v", a)
	}
	return a
}

func (s *stack) try(ctx context.Context, api dynamo.API, request, physical, properties string) error {
	s.Helper()
	h, err := customresource.New(customresource.Options{API: api, Table: testbed.Table, Logger: slog.New(slog.NewTextHandler(&s.log, nil))})
	s.Must(err)
	event, err := json.Marshal(map[string]any{
		"RequestType": request, "ResponseURL": s.receiver.URL + "/answer?secret=s3cret", "RequestId": "req-1", "LogicalResourceId": "Limits",
		"StackId":            "arn:aws:cloudformation:us-east-1:123456789012:stack/" + s.stack + "/51af3dc0-da77-11e4-872e-1234567db123",
		"PhysicalResourceId": physical, "ResourceType": s.kind, "ResourceProperties": json.RawMessage(properties),
	})
	s.Must(err)
	_, err = h.Handle(ctx, event)
	return err
}

// do sends an event that succeeds.
func (s *stack) do(request, physical, properties string) answer {
	s.Helper()
	a := s.send(s.Context(), s.API, request, physical, properties)
	if a.Status != "SUCCESS" {
		s.Fatalf("%s: %+v", request, a)
	}
	return a
}

func (s *stack) capacity(k store.ConfigKey) int64 {
	s.Helper()
	c, err := s.Store.Limits(s.Context(), k)
	if err != nil {
		return 0
	}
	return c.Limits[0].Capacity
}

// one has one resource with a limit; CloudFormation sends its numbers as strings.
func one(resource string, capacity int) string {
	return fmt.Sprintf(`{"ServiceToken":"arn","TableName":"limits","Namespace":"default","Resources":{"%s":{"Limits":{"rpm":{"Capacity":"%d"}}}}}`, resource, capacity)
}

func TestTheLifeOfAResource(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	a := s.do("Create", "", `{"ServiceToken":"arn","TableName":"limits","Namespace":"default",
		"System":{"OnUnavailable":"block","Limits":{"rpm":{"Capacity":"7","RefillAmount":"7","RefillPeriod":"30","Burst":"15"},"tpm":{"Rate":"7/30sec","Burst":"15"}}},
		"Resources":{"gpt-4":{"Limits":{"rpm":{"Rate":"5"}}}},
		"Entities":{"User-1":{"Resources":{"gpt-4":{"Limits":{"rpm":{"Capacity":9}}}}}}}`)
	if a.Data["Created"] != "3" {
		t.Errorf("got %+v", a)
	}
	c, err := s.Store.Limits(t.Context(), store.ConfigKey{})
	want := []store.Limit{
		{Name: "rpm", Capacity: 15, Amount: 7, Period: 30 * time.Second},
		{Name: "tpm", Capacity: 15, Amount: 7, Period: 30 * time.Second},
	}
	if diff := cmp.Diff(want, c.Limits); diff != "" || err != nil || c.OnUnavailable != store.Block {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	updated := s.do("Update", a.PhysicalResourceId, one("gpt-4", 6))
	if updated.PhysicalResourceId != a.PhysicalResourceId || updated.Data["Updated"] != "1" || updated.Data["Deleted"] != "2" {
		t.Errorf("got %+v", updated)
	}
	if got := s.capacity(store.ConfigKey{Resource: "gpt-4"}); got != 6 {
		t.Errorf("got %d", got)
	}
	s.do("Delete", a.PhysicalResourceId, one("gpt-4", 6))
	if got := s.capacity(store.ConfigKey{Resource: "gpt-4"}); got != 0 {
		t.Errorf("got %d", got)
	}
	s.do("Delete", a.PhysicalResourceId, one("gpt-4", 6)) // nothing is left, and nothing is wrong
}

// CloudFormation shows no warnings, so the log has the limits that do not hold: those that a
// level of the resource ends, and those that another level hides.
func TestTheLogHasLimitsThatDoNotHold(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Must(s.Store.SetLimits(t.Context(), store.ConfigKey{Resource: "gpt-5"}, []store.Limit{{Name: "rpm", Capacity: 1, Amount: 1, Period: time.Minute}}))
	for _, c := range []struct {
		properties string
		want       []string
	}{
		{
			`{"Namespace":"default","System":{"Limits":{"rpm":{"Rate":"7"},"tpm":{"Rate":"7"}}},"Resources":{"gpt-4":{"Limits":{"tpm":{"Rate":"5"}}}}}`,
			[]string{"resource gpt-4 holds instead of the system, and has no limit rpm", "resource gpt-5 holds instead of the system, and has no limit tpm"},
		},
		{`{"Namespace":"default","System":{"Limits":{"rpm":{"Rate":"8"},"tpm":{"Rate":"8"}}},"Resources":{"gpt-4":{"Limits":{"tpm":{"Rate":"5"}}}}}`, nil},
	} {
		s.log.Reset()
		s.do("Create", "", c.properties)
		logged := s.log.String()
		if strings.Count(logged, "level=WARN") != len(c.want) {
			t.Errorf("logged %s", logged)
		}
		for _, want := range c.want {
			if !strings.Contains(logged, want) {
				t.Errorf("logged %s, want %s", logged, want)
			}
		}
	}
}

// Peer's defect: two stacks deleted each other's levels.
func TestTwoStacksLeaveEachOtherAlone(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	a := s.do("Create", "", one("a", 1))
	s.stack = "other"
	b := s.do("Create", "", one("b", 2))
	if a.PhysicalResourceId == b.PhysicalResourceId {
		t.Error("both have the ID", a.PhysicalResourceId)
	}
	s.do("Delete", b.PhysicalResourceId, one("b", 2))
	if got := s.capacity(store.ConfigKey{Resource: "a"}); got != 1 {
		t.Errorf("got %d", got)
	}
}

// Peer's defect 23: a level that failed was reported as a success.
func TestALevelThatFailsFailsTheResource(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	refuse := faults.Wrap(s.API, func(ctx context.Context, c *faults.Call, next faults.Next) error {
		for _, k := range c.Keys() {
			if c.Writes() && strings.HasSuffix(k.PK, "RESOURCE#bad") {
				return &smithy.GenericAPIError{Code: "ValidationException", Message: "refused"}
			}
		}
		return next(ctx)
	})
	both := strings.Replace(one("bad", 1), `"Resources":{`, `"Resources":{"good":{"Limits":{"rpm":{"Capacity":"2"}}},`, 1)
	a := s.send(t.Context(), refuse, "Create", "", both)
	if a.Status != "FAILED" || !strings.Contains(a.Reason, "1 of 2 levels failed") || !strings.Contains(a.Reason, "bad") {
		t.Errorf("got %+v", a)
	}
	s.do("Update", a.PhysicalResourceId, both)
	if got := s.capacity(store.ConfigKey{Resource: "bad"}); got != 1 {
		t.Errorf("got %d", got)
	}
}

// Which of the two would win is up to chance.
func TestAPropertyInTwoSpellingsIsRefused(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for _, c := range []struct{ properties, want string }{
		{strings.Replace(one("r", 1), `"Capacity":"1"`, `"Capacity":"1","capacity":"2"`, 1), "resources.r.limits.rpm.capacity (given as Capacity and capacity)"},
		{strings.Replace(one("r", 1), `{`, `{"namespace":"other",`, 1), "namespace (given as Namespace and namespace)"},
	} {
		if a := s.send(t.Context(), s.API, "Create", "", c.properties); a.Status != "FAILED" || !strings.Contains(a.Reason, c.want) {
			t.Errorf("%s: got %+v", c.properties, a)
		}
	}
}

func TestALevelOfAnotherManifestIsNamed(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.do("Create", "", one("taken", 1))
	theirs := strings.Replace(one("taken", 2), `{`, `{"Name":"theirs",`, 1)
	const want = `resource taken: it belongs to manifest`
	if a := s.send(t.Context(), s.API, "Create", "", theirs); a.Status != "FAILED" || !strings.Contains(a.Reason, want) {
		t.Errorf("got %+v", a)
	}
	h, err := customresource.New(customresource.Options{API: s.API, Table: "limits"})
	s.Must(err)
	reply, err := h.Handle(t.Context(), json.RawMessage(
		`{"action":"apply","manifest":{"namespace":"default","name":"theirs","resources":{"taken":{"limits":{"rpm":{"capacity":2}}}}}}`))
	s.Must(err)
	if text, err := json.Marshal(reply); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("got %s, %v", text, err)
	}
}

// Peer's defect 23: the answer grew with the manifest, and CloudFormation refused it.
func TestAnAnswerStaysBelowTheBound(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	var wrong []string
	for i := range 500 {
		wrong = append(wrong, fmt.Sprintf(`"r%d":{"Limits":{"rpm":{"Capacity":"\u20ac\u0001<%d>"}}}`, i, i))
	}
	a := s.send(t.Context(), s.API, "Create", "", `{"Namespace":"default","Resources":{`+strings.Join(wrong, ",")+`}}`)
	if a.Status != "FAILED" || len(a.Reason) < 500 {
		t.Errorf("got %+v", a)
	}
}

func TestADeletionNeverHoldsAStackUp(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	a := s.do("Create", "", one("r", 1))
	failed := s.send(t.Context(), s.API, "Create", "", `{"Namespace":"nobody"}`)
	if failed.Status != "FAILED" {
		t.Errorf("got %+v", failed)
	}
	s.do("Delete", failed.PhysicalResourceId, `{"Namespace":"nobody"}`)
	s.do("Delete", a.PhysicalResourceId, `{"Namespace":"nobody"}`)
	s.do("Delete", a.PhysicalResourceId, `{"Namespace":"default","Resources":"broken"}`) // says where, and that is enough
	if got := s.capacity(store.ConfigKey{Resource: "r"}); got != 0 {
		t.Errorf("got %d", got)
	}
}

// A namespace that was deleted and registered again is another one: the resource owns
// nothing there.
func TestANamespaceOfTheSameNameIsAnother(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	a := s.do("Create", "", one("r", 1))
	namespaces, err := admin.NewNamespaces(s.StoreOptions(dynamo.Options{}))
	s.Must(err)
	s.Must(namespaces.Delete(t.Context(), "default"))
	_, err = namespaces.Register(t.Context(), "default")
	s.Must(err)
	b := s.do("Update", a.PhysicalResourceId, one("r", 1))
	if a.PhysicalResourceId == b.PhysicalResourceId {
		t.Error("the ID did not change with the namespace")
	}
	s.do("Delete", a.PhysicalResourceId, one("r", 1)) // as CloudFormation does afterwards
	s.Store = s.Open(dynamo.Options{})
	if got := s.capacity(store.ConfigKey{Resource: "r"}); got != 1 {
		t.Errorf("got %d", got)
	}
}

func TestThePeersResourceKeepsItsIDAndItsRecord(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.kind = customresource.PeerType
	const peers = "limits/default/limits-provisioner"
	s.Must(s.Store.SetLimits(t.Context(), store.ConfigKey{Resource: "old"}, []store.Limit{{Name: "rpm", Capacity: 1, Amount: 1, Period: time.Minute}}))
	s.Must(s.Store.ChangeManifest(t.Context(), manifest.DefaultName, func(own *dynamo.ManifestRecord, _ []dynamo.ManifestRecord) error {
		own.Levels[store.ConfigKey{Resource: "old"}] = ""
		return nil
	}))
	a := s.do("Update", peers, one("new", 2))
	if a.PhysicalResourceId != peers || a.Data["Deleted"] != "1" || a.Data["Created"] != "1" {
		t.Errorf("got %+v", a)
	}
	s.do("Delete", peers, one("new", 2))
	if got := s.capacity(store.ConfigKey{Resource: "new"}); got != 0 {
		t.Errorf("got %d", got)
	}
}

func TestAnAnswerIsSentAgain(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.fails = 2
	s.do("Create", "", one("r", 1))
	s.fails, s.code = 100, http.StatusForbidden
	err := s.try(t.Context(), s.API, "Create", "", one("r", 1))
	if err == nil || strings.Contains(err.Error(), "s3cret") || s.fails != 99 {
		t.Errorf("%v, %d left", err, s.fails)
	}
	s.receiver.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.try(ctx, s.API, "Create", "", one("r", 1)); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
}

// A function whose time ends answers before that.
func TestAnAnswerComesBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	hang := faults.Wrap(s.API, func(ctx context.Context, c *faults.Call, next faults.Next) error {
		if c.Op != faults.TransactWriteItems {
			return next(ctx)
		}
		<-ctx.Done()
		return ctx.Err()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	a := s.send(ctx, hang, "Create", "", one("r", 1))
	if a.Status != "FAILED" || !strings.Contains(a.Reason, "update the stack again to continue") {
		t.Errorf("got %+v", a)
	}
}

func TestWrongEventsAreRefused(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for properties, want := range map[string]string{
		`{}`:   "Namespace",
		`null`: "Namespace",
		`{"Namespace":"default","TableName":"another"}`:                                                    "serves the table",
		`{"Namespace":"default","Systems":{}}`:                                                             "unknown key",
		`{"Namespace":"default","System":{"Limits":{"rpm":{"Capacity":"-1"}}}}`:                            "system.limits.rpm.capacity",
		`{"Namespace":"default","Resources":{"r":{"Schedules":"true","Limits":{"rpm":{"Capacity":"1"}}}}}`: "not supported",
		`{"Namespace":"default","Entities":{"e":{"Parent":"nobody","Cascade":"true"}}}`:                    "entities.e.parent: there is no entity",
	} {
		if a := s.send(t.Context(), s.API, "Create", "", properties); a.Status != "FAILED" || !strings.Contains(a.Reason, want) {
			t.Errorf("%s: %+v", properties, a)
		}
	}
	if a := s.send(t.Context(), s.API, "Explode", "x", `{}`); a.Status != "FAILED" {
		t.Errorf("got %+v", a)
	}
	h, err := customresource.New(customresource.Options{API: s.API})
	s.Must(err)
	for _, event := range []string{`{}`, `[`, `{"action":"explode","manifest":{"namespace":"default"},"table_name":"limits"}`} {
		if _, err := h.Handle(t.Context(), json.RawMessage(event)); err == nil {
			t.Errorf("%s is accepted", event)
		}
	}
}

// The peer's command line calls the function directly.
func TestThePeersCalls(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	h, err := customresource.New(customresource.Options{API: s.API, Logger: slog.New(slog.NewTextHandler(&s.log, nil))})
	s.Must(err)
	s.Must(s.Store.SetLimits(t.Context(), store.ConfigKey{Resource: "r"}, []store.Limit{{Name: "tpm", Capacity: 1, Amount: 1, Period: time.Minute}}))
	_, id := s.Store.Namespace()
	call := func(action string) string {
		event := fmt.Sprintf(`{"action":%q,"table_name":"limits","namespace_id":%q,"manifest":{"namespace":"default",
			"system":{"limits":{"rpm":{"capacity":5}}},"entities":{"e":{"resources":{"r":{"limits":{"rpm":{"capacity":5}}}}}}}}`, action, id)
		reply, err := h.Handle(t.Context(), json.RawMessage(event))
		s.Must(err)
		text, err := json.Marshal(reply)
		s.Must(err)
		return string(text)
	}
	const changes = `"changes":[{"action":"create","level":"system","target":null},{"action":"create","level":"entity","target":"e/r"}]`
	for _, c := range []struct{ action, want string }{
		{"plan", `{"status":"planned",` + changes + `,"created":0,"updated":0,"deleted":0,"unchanged":0,"pending":0,"full":false,"resumed":false,"errors":[]}`},
		{"apply", `{"status":"applied",` + changes + `,"created":2,"updated":0,"deleted":0,"unchanged":0,"pending":0,"full":false,"resumed":false,"errors":[]}`},
		{"plan", `{"status":"planned","changes":[],"created":0,"updated":0,"deleted":0,"unchanged":2,"pending":0,"full":false,"resumed":false,"errors":[]}`},
	} {
		if diff := cmp.Diff(c.want, call(c.action)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.action, diff)
		}
	}
	if schema.DefaultManifest != manifest.DefaultName {
		t.Error("the record is not the peer's")
	}
	if strings.Count(s.log.String(), "holds instead of resource r, and has no limit tpm") != 1 {
		t.Errorf("logged %s", &s.log)
	}
}

// The peer's spelling of a quota arrives as CloudFormation sends it.
func TestThePeersQuotas(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.do("Create", "", `{"Namespace":"default","Resources":{"r":{"Limits":{"rpd":{"Capacity":"7","RefillAmount":"0","RefillPeriod":"60","ResetSchedule":[{"Cron":"0 9 * * *","Tz":"Asia/Tokyo"}]},"sess":{"Capacity":"5","ResetAfterSeconds":"18000"}}}}}`)
	c, err := s.Store.Limits(t.Context(), store.ConfigKey{Resource: "r"})
	s.Must(err)
	renews, err := store.ParseRenewal("day at 09:00", "Asia/Tokyo")
	s.Must(err)
	session, err := store.ParseRenewal("session 5h", "")
	s.Must(err)
	if want := []store.Limit{{Name: "rpd", Capacity: 7, Renews: renews}, {Name: "sess", Capacity: 5, Renews: session}}; !slices.Equal(c.Limits, want) {
		t.Errorf("got %+v, want %+v", c.Limits, want)
	}
}

// What the template says comes back as the manifest, also if numbers are strings.
func TestATemplateHasTheWholeManifest(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	m, err := manifest.Parse("f", []byte(`{"name":"team","namespace":"default","system":{"on_unavailable":"allow","limits":{"q":{"quota":5,"renews":"last day at 06:30","zone":"Europe/Berlin"},"sess":{"quota":9,"renews":"session 5h"},"rpm":{"capacity":10,"refill_amount":10,"burst":20}}},
		"resources":{"off":{"disabled":true,"until":"2999-01-02T03:04:05Z"},"r":{"disabled":false,"cascade":false,"limits":{"rpm":{"capacity":1,"reset_schedule":[{"cron":"0 0 * * *","tz":"Asia/Tokyo"}]}}}},
		"entities":{"org":{"parent":""},"e":{"parent":"org","cascade":true,"resources":{"r":{"limits":{"rpm":{"capacity":2}}},"s":{"limits":{"rpm":{"capacity":3,"refill_period":7}}}}}}}`))
	s.Must(err)
	text, err := json.Marshal(customresource.NewTemplate(m, testbed.Table))
	s.Must(err)
	var template struct {
		Resources map[string]struct {
			Type       string
			Properties json.RawMessage
		}
	}
	s.Must(json.Unmarshal(text, &template))
	if got := template.Resources["Limits"].Type; got != s.kind {
		t.Errorf("got %s", got)
	}
	s.do("Create", "", string(template.Resources["Limits"].Properties))
	manager, err := manifest.New(s.Store)
	s.Must(err)
	got, _, err := manager.Export(t.Context(), "team")
	if diff := cmp.Diff(m, got, cmp.Comparer(func(a, b *store.Renewal) bool { return a == b })); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
