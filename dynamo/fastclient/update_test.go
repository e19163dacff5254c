package fastclient_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/direct"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// An update is one of the store's, which keeps the item that it met.
type update struct {
	in   *dynamodb.UpdateItemInput
	size int // of the body; 0 is small
	met  schema.Item
}

func (u *update) Input() *dynamodb.UpdateItemInput { return u.in }

func (u *update) AppendTo(body []byte) []byte {
	return append(append(append(body, '{'), strings.Repeat(" ", u.size)...), '}')
}

func (u *update) Meet(item []direct.Attribute) {
	u.met = schema.Item{}
	for _, a := range item {
		u.met[strings.Clone(a.Name)] = schema.S(strings.Clone(a.Text))
	}
}

// embedding is an API that embeds the Client and sees each UpdateItem.
type embedding struct {
	*fastclient.Client
	updates int
}

func (e *embedding) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	e.updates++
	return e.Client.UpdateItem(ctx, in, o...)
}

// Only the Client itself sends updates in its own form.
func TestUpdaterIsTheClient(t *testing.T) {
	t.Parallel()
	cfg := clientConfig("http://db.example")
	client := fastclient.New(cfg)
	cfg.APIOptions = append(cfg.APIOptions, nil)
	for name, c := range map[string]struct {
		api   any
		table string
		want  bool
	}{
		"the client":            {client, table, true},
		"an ARN":                {client, "arn:aws:dynamodb:us-east-1:123456789012:table/limits", false},
		"options":               {fastclient.New(cfg), table, false},
		"what embeds it":        {&embedding{Client: client}, table, false},
		"a meter":               {dynamo.NewMeter(client), table, false},
		"another client":        {newSDK(clientConfig("http://db.example")), table, false},
		"a struct that has it":  {struct{ *fastclient.Client }{client}, table, false},
		"no client of any kind": {nil, table, false},
	} {
		if got := direct.UpdaterOf(c.api, c.table) != nil; got != c.want {
			t.Errorf("%s is an updater: %t", name, got)
		}
	}
}

// A mimic answers every UpdateItem alike, and the rest with an engine.
type mimic struct {
	engine http.Handler
	answer atomic.Pointer[mimicked]
}

type mimicked struct {
	status       int
	body, header string // the header X-Amzn-Errortype
}

func (m *mimic) says(status int, body string) {
	m.answer.Store(&mimicked{status: status, body: body})
}

func (m *mimic) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := m.answer.Load()
	if a == nil || !strings.HasSuffix(r.Header.Get("X-Amz-Target"), "UpdateItem") {
		m.engine.ServeHTTP(w, r)
		return
	}
	if a.header != "" {
		w.Header().Set("X-Amzn-Errortype", a.header)
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// The twoStores take from the same server: one gets attributes, the other maps.
type twoStores struct {
	*mimic
	attributes, maps *dynamo.Store
	embedding        *embedding
}

func newTwoStores(tb testing.TB) *twoStores {
	tb.Helper()
	m := &mimic{engine: dynamolite.NewHandler(newTable(tb), dynamolite.HandlerOptions{})}
	cfg := clientConfig(newDesk(tb, m).started().URL)
	both := &twoStores{mimic: m, embedding: &embedding{Client: fastclient.New(cfg)}}
	for s, api := range map[**dynamo.Store]dynamo.API{&both.attributes: fastclient.New(cfg), &both.maps: both.embedding} {
		var err error
		if *s, err = dynamo.Open(tb.Context(), dynamo.Options{API: api, Table: table}); err != nil {
			tb.Fatal(err)
		}
	}
	return both
}

var debit = &store.Take{
	Bucket: store.Bucket{Entity: "entity", Resource: "gpt-4"}, Now: 1764151200000, Since: 1, ShardCount: 1,
	Debits: []store.Debit{{Amount: store.Amount{Limit: "rpm", Milli: 1000}, AtMost: 60000}},
}

// outcome is an outcome with the text of its error.
type outcome struct {
	store.Outcome
	Err string
}

func take(ctx context.Context, s *dynamo.Store) outcome {
	out, err := s.Take(ctx, debit)
	if err != nil {
		return outcome{out, err.Error()}
	}
	return outcome{out, ""}
}

// check compares what both stores make of an item, as a result and as a refusal. It uses
// the memory of the answer again before it looks at the image.
func (b *twoStores) check(t *testing.T, item string) {
	t.Helper()
	for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
		body := `{"Attributes":` + item + `}`
		if status != http.StatusOK {
			body = `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"no","Item":` + item + `}`
		}
		b.says(status, body)
		got, want := take(t.Context(), b.attributes), take(t.Context(), b.maps)
		b.says(http.StatusOK, `{"Attributes":{"`+strings.Repeat("z", len(body))+`":{"S":""}}}`)
		take(t.Context(), b.attributes)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d %s: (-maps +attributes)\n%s", status, body, diff)
		}
	}
}

const bucketItem = `"PK":{"S":"ns/BUCKET#entity#gpt-4#0"},"SK":{"S":"#STATE"},"rf":{"N":"1764151200000"},"b_rpm_tk":{"N":"59000"},"b_rpm_cp":{"N":"60000"},` +
	`"b_rpm_ra":{"N":"60000"},"b_rpm_rp":{"N":"60000"},"b_wcu_tk":{"N":"5"},"b_wcu_cp":{"N":"5"},"b_wcu_ra":{"N":"5"},"b_wcu_rp":{"N":"5"}`

var bucketItems = map[string]string{
	"a bucket":           `{` + bucketItem + `}`,
	"with a parent":      `{` + bucketItem + `,"parent_id":{"S":"p"},"pinc":{"S":"inc"},"pgen":{"N":"3"},"cascade":{"BOOL":true},"disabled":{"BOOL":false}}`,
	"with another limit": `{` + bucketItem + `,"b_x.y_tk":{"N":"1"},"b_x.y_cp":{"N":"1"},"b_x.y_ra":{"N":"1"},"b_x.y_rp":{"N":"1"},"b_x.y_tc":{"N":"99999999999999999999999"}}`,
	"of another entity":  `{` + strings.Replace(bucketItem, "entity#gpt-4#0", "other#gpt-3#7", 1) + `}`,
	"with schedules":     `{` + bucketItem + `,"sched":{"S":"x"},"b_rpm_rsched":{"S":"-"},"b_rpm_rsa":{"N":"1"}}`,
	"with other types":   `{` + bucketItem + `,"a":{"L":[]},"b":{"M":{"c":{"NULL":true}}},"d":{"SS":["e"]},"f":{"B":"AA=="}}`,
	"with an escape":     `{` + bucketItem + `,"parent_id":{"S":"\u0070"},"\u0061":{"S":"x"}}`,
	"with spaces":        `{ ` + bucketItem + `}`,
	"a number as text":   `{` + strings.Replace(bucketItem, `"rf":{"N"`, `"rf":{"S"`, 1) + `}`,
	"a broken number":    `{` + strings.Replace(bucketItem, `"59000"`, `"59000.5"`, 1) + `}`,
	"two broken numbers": `{` + strings.NewReplacer(`"59000"`, `"x"`, `"60000"`, `"y"`).Replace(bucketItem) + `}`,
	"two broken values":  `{` + bucketItem + `,"ttl":{"S":"x"},"vu":{"S":"y"},"created":{"S":""}}`,
	"no limit":           `{"PK":{"S":"ns/BUCKET#entity#gpt-4#0"},"SK":{"S":"#STATE"},"rf":{"N":"1"}}`,
	"no rf":              `{"PK":{"S":"ns/BUCKET#entity#gpt-4#0"},"SK":{"S":"#STATE"}}`,
	"no amount":          `{` + strings.Replace(bucketItem, "b_rpm_ra", "b_rpm_xx", 1) + `}`,
	"another item":       `{"PK":{"S":"ns/ENTITY#entity"},"SK":{"S":"#META"},"rf":{"N":"1"}}`,
	"no key":             `{"rf":{"N":"1"}}`,
	"nothing":            `{}`,
	"null":               `null`,
	"twice":              `{` + bucketItem + `,"rf":{"N":"5"},"b_rpm_tk":{"N":"7"}}`,
	"more members":       `{` + bucketItem + `},"ConsumedCapacity":{"CapacityUnits":1}`,
	"half of it":         `{` + bucketItem,
}

// Attributes and maps make the same image, or the same error, of every answer. An image
// keeps nothing of an answer.
func TestBothFormsOfAnItem(t *testing.T) {
	t.Parallel()
	both := newTwoStores(t)
	for _, item := range bucketItems {
		both.check(t, item)
	}
	const noItem = `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"no"}`
	for _, header := range []string{"", "ThrottlingException"} {
		both.answer.Store(&mimicked{http.StatusBadRequest, noItem, header})
		if diff := cmp.Diff(take(t.Context(), both.maps), take(t.Context(), both.attributes)); diff != "" {
			t.Errorf("no item, %q: (-maps +attributes)\n%s", header, diff)
		}
	}
	if both.embedding.updates != 2*len(bucketItems)+2 {
		t.Errorf("what embeds the Client saw %d updates", both.embedding.updates)
	}
}

func FuzzBothFormsOfAnItem(f *testing.F) {
	for _, item := range bucketItems {
		f.Add(strings.TrimPrefix(item, "{"+bucketItem))
	}
	both := newTwoStores(f)
	f.Fuzz(func(t *testing.T, rest string) { both.check(t, "{"+bucketItem+rest) })
}

// A take with a bill costs what the server says.
func TestBillsOfUpdates(t *testing.T) {
	t.Parallel()
	both := newTwoStores(t)
	create := &store.Create{Bucket: debit.Bucket, Now: debit.Now, ShardCount: 1}
	create.Writes = store.NewLimit{NamedParams: store.NamedParams{Limit: schema.WCU, Params: store.Params{Capacity: 1e6, Amount: 1e6, Period: 1000}}, Tokens: 1e6}
	create.Limits = []store.NewLimit{{NamedParams: store.NamedParams{Limit: "rpm", Params: store.Params{Capacity: 60000, Amount: 60000, Period: 60000}}, Tokens: 1000}}
	if _, err := both.maps.Create(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	for _, applied := range []bool{true, false} {
		var bill store.Bill
		out := take(store.WithBill(t.Context(), &bill), both.attributes)
		if got := bill.Cost(); out.Applied != applied || out.Image == nil || got.Requests != 1 || got.WriteUnits != 1 {
			t.Errorf("%+v costs %+v", out, got)
		}
	}
}
