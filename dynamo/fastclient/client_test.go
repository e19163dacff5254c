package fastclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

const table = "limits"

// newTable returns an engine with a table in it.
func newTable(tb testing.TB) *dynamolite.DB {
	tb.Helper()
	db := dynamolite.New(dynamolite.Options{})
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	if err := dynamo.CreateTable(tb.Context(), db, dynamo.TableOptions{Name: table}); err != nil {
		tb.Fatal(err)
	}
	return db
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

// secrets are the credentials that a served engine accepts.
var secrets = map[string]string{"AKIDOLD": "old secret", "AKIDNEW": "new secret"}

func signedBy(id string) aws.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider(id, secrets[id], "")
}

func clientConfig(endpoint string) aws.Config {
	return aws.Config{Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: signedBy("AKIDOLD")}
}

// A desk is a server that records its requests and counts their connections.
type desk struct {
	*httptest.Server
	connections atomic.Int64

	mu       sync.Mutex
	requests []noted
}

// noted is a request as it was sent.
type noted struct {
	Line, Host, Body string
	Header           http.Header
}

func newDesk(tb testing.TB, h http.Handler) *desk {
	tb.Helper()
	d := &desk{}
	d.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		d.mu.Lock()
		d.requests = append(d.requests, noted{r.Method + " " + r.RequestURI + " " + r.Proto, r.Host, string(body), r.Header.Clone()})
		d.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, r)
	}))
	d.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			d.connections.Add(1)
		}
	}
	tb.Cleanup(d.Close)
	return d
}

func (d *desk) started() *desk { d.Start(); return d }

// taken returns the requests so far and forgets them.
func (d *desk) taken() []noted {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.requests
	d.requests = nil
	return all
}

// newEngineDesk returns an engine that verifies signatures.
func newEngineDesk(tb testing.TB) *desk {
	tb.Helper()
	return newDesk(tb, dynamolite.NewHandler(newTable(tb), dynamolite.HandlerOptions{Credentials: secrets})).started()
}

func newSDK(cfg aws.Config) dynamo.API { return dynamodb.NewFromConfig(cfg) }

func newFast(cfg aws.Config) dynamo.API { return fastclient.New(cfg) }

// empty answers every operation with an empty object.
var empty = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })

func getSomething(ctx context.Context, c dynamo.API, optFns ...func(*dynamodb.Options)) error {
	_, err := c.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(table), Key: schema.Key{PK: "a", SK: "b"}.Item()}, optFns...)
	return err
}

func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// operations are calls of every kind, on an item with the key of entity.
func operations() map[string]func(context.Context, dynamo.API) (any, error) {
	key := entity()
	return map[string]func(context.Context, dynamo.API) (any, error){
		"PutItem": func(ctx context.Context, c dynamo.API) (any, error) {
			return c.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(table), Item: key})
		},
		"UpdateItem": func(ctx context.Context, c dynamo.API) (any, error) {
			return c.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: aws.String(table), Key: key, UpdateExpression: aws.String("SET v = :v"), ReturnValues: types.ReturnValueAllNew,
				ExpressionAttributeValues: schema.Item{":v": schema.N(5)},
			})
		},
		"UpdateItem refused": func(ctx context.Context, c dynamo.API) (any, error) {
			return c.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: aws.String(table), Key: key, UpdateExpression: aws.String("SET v = :v"),
				ConditionExpression:       aws.String("attribute_not_exists(PK)"),
				ExpressionAttributeValues: schema.Item{":v": schema.N(5)}, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
			})
		},
		"UpdateItem with another answer": func(ctx context.Context, c dynamo.API) (any, error) {
			return c.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: aws.String(table), Key: key, UpdateExpression: aws.String("SET v = :v"), ReturnValues: types.ReturnValueAllNew,
				ExpressionAttributeValues: schema.Item{":v": &types.AttributeValueMemberM{Value: schema.Item{
					"l": &types.AttributeValueMemberL{Value: []types.AttributeValue{schema.S("\n"), schema.Bool(true), &types.AttributeValueMemberNULL{Value: true}}},
					"s": &types.AttributeValueMemberSS{Value: []string{"a\u2028", "\x7f"}}, "n": &types.AttributeValueMemberNS{Value: []string{"1", "2"}},
					"b": &types.AttributeValueMemberBS{Value: [][]byte{{0}, {1, 2}}},
				}}},
				ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes,
			})
		},
		"UpdateItem without a key": func(ctx context.Context, c dynamo.API) (any, error) {
			return c.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: aws.String(table), Key: schema.Item{"PK": schema.S("a")}})
		},
		"GetItem": func(ctx context.Context, c dynamo.API) (any, error) {
			return c.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(table), Key: key, ConsistentRead: aws.Bool(true)})
		},
		"GetItem of nothing": func(ctx context.Context, c dynamo.API) (any, error) {
			return c.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(table), Key: schema.Key{PK: "none", SK: "none"}.Item()})
		},
		"TransactWriteItems": func(ctx context.Context, c dynamo.API) (any, error) {
			return c.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String("token"), TransactItems: []types.TransactWriteItem{
				{Put: &types.Put{TableName: aws.String(table), Item: schema.Key{PK: "other", SK: "b"}.Item()}},
				{Update: &types.Update{TableName: aws.String(table), Key: key, UpdateExpression: aws.String("REMOVE v")}},
			}})
		},
		"TransactWriteItems refused": func(ctx context.Context, c dynamo.API) (any, error) {
			return c.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String("another token"), TransactItems: []types.TransactWriteItem{
				{Delete: &types.Delete{TableName: aws.String(table), Key: schema.Key{PK: "other", SK: "b"}.Item()}},
				{ConditionCheck: &types.ConditionCheck{
					TableName: aws.String(table), Key: key, ConditionExpression: aws.String("attribute_not_exists(PK)"),
					ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
				}},
			}})
		},
		"BatchGetItem": func(ctx context.Context, c dynamo.API) (any, error) {
			return c.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: {Keys: []schema.Item{key}}}})
		},
		"Query by a paginator": func(ctx context.Context, c dynamo.API) (any, error) {
			return dynamodb.NewQueryPaginator(c, &dynamodb.QueryInput{
				TableName: aws.String(table), KeyConditionExpression: aws.String("PK = :pk"),
				ExpressionAttributeValues: schema.Item{":pk": schema.S("entity")},
			}).NextPage(ctx)
		},
		"a large PutItem": func(ctx context.Context, c dynamo.API) (any, error) {
			return c.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(table), Item: schema.Item{
				schema.PK: schema.S("large"), schema.SK: schema.S("b"), "v": schema.S(strings.Repeat("x", 300_000)),
			}, ReturnValues: types.ReturnValueAllOld})
		},
		"no such table": func(ctx context.Context, c dynamo.API) (any, error) {
			return c.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String("missing")})
		},
	}
}

// entity is the key of an item.
func entity() schema.Item { return schema.Key{PK: "entity ü\"\\<", SK: "b"}.Item() }

// A learned is what a caller learns from a call.
type learned struct {
	Out       any
	Err       string
	Image     schema.Item
	Cancelled []types.CancellationReason
}

func learn(out any, err error) learned {
	l := learned{Out: out}
	if err != nil {
		l.Err = withoutIDs(err.Error())
		l.Image, _ = conn.ConditionFailed(err)
		l.Cancelled = conn.Cancellation(err)
	}
	return l
}

// checkSame checks that callers of the two clients learn the same.
func checkSame(t *testing.T, sdk, ours learned) {
	t.Helper()
	ignore := cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == ".ResultMetadata" || p.Last().String() == ".noSmithyDocumentSerde"
	}, cmp.Ignore())
	if diff := cmp.Diff(sdk, ours, ignore); diff != "" {
		t.Errorf("what the SDK says and what we say differ: %s", diff)
	}
}

// The client sends and returns the same as the SDK's own client, except for values that
// differ in every request.
func TestClientSendsWhatTheSDKSends(t *testing.T) {
	t.Parallel()
	for name, call := range operations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent [2][]noted
			var results [2]learned
			for i, newClient := range []func(aws.Config) dynamo.API{newSDK, newFast} {
				d := newEngineDesk(t)
				cfg := clientConfig(d.URL)
				cfg.AppID = "an-app"
				c := newClient(cfg)
				if _, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: entity()}); err != nil {
					t.Fatal(err)
				}
				d.taken()
				results[i] = learn(call(t.Context(), c))
				sent[i] = d.taken()
				for j, r := range sent[i] {
					if want := strings.TrimPrefix(d.URL, "http://"); r.Host != want {
						t.Errorf("sent to the host %s, want %s", r.Host, want)
					}
					sent[i][j].Host = ""
					for _, h := range []string{"X-Amz-Date", "Authorization"} {
						if len(r.Header[h]) != 1 {
							t.Errorf("%s is %q", h, r.Header[h])
						}
						r.Header.Del(h) // verified by the engine
					}
					r.Header.Del("Amz-Sdk-Invocation-Id") // only the SDK's
					r.Header.Del("Amz-Sdk-Request")
				}
			}
			if diff := cmp.Diff(sent[0], sent[1], cmp.FilterPath(isBody, cmp.Comparer(sameJSON))); diff != "" || len(sent[1]) != 1 {
				t.Errorf("%d requests; the SDK's and ours differ: %s", len(sent[1]), diff)
			}
			checkSame(t, results[0], results[1])
		})
	}
}

func isBody(p cmp.Path) bool { return p.Last().String() == ".Body" }

// sameJSON ignores the order of attributes, which differs each time.
func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y) && len(a) == len(b)
}

// withoutIDs removes the request's ID, which differs each time, from an error.
func withoutIDs(text string) string {
	before, after, found := strings.Cut(text, "RequestID: ")
	if !found {
		return text
	}
	_, after, _ = strings.Cut(after, ",")
	return before + after
}

// The client has the SDK's middleware, in the SDK's order, except for the check of
// answers, which the client makes itself.
func TestClientKeepsTheMiddleware(t *testing.T) {
	t.Parallel()
	d := newEngineDesk(t)
	var stacks [2]string
	for i, c := range []dynamo.API{newSDK(clientConfig(d.URL)), newFast(clientConfig(d.URL))} {
		note := dynamodb.WithAPIOptions(func(s *middleware.Stack) error { stacks[i] = s.String(); return nil })
		if err := getSomething(t.Context(), c, note); err != nil {
			t.Fatal(err)
		}
	}
	const check = "DynamoDB:ResponseChecksumValidation\n"
	if want := strings.Replace(stacks[0], "\t\t"+check, "", 1); want != stacks[1] || want == stacks[0] {
		t.Errorf("the SDK has %s, ours %s", stacks[0], stacks[1])
	}
}

// A configured HTTP client or signer is used.
func TestClientLeavesAloneWhatIsGiven(t *testing.T) {
	t.Parallel()
	d := newEngineDesk(t)
	cfg := clientConfig(d.URL)
	var mine http.Client
	cfg.HTTPClient = &mine
	if c := fastclient.New(cfg); c.Options().HTTPClient != dynamodb.HTTPClient(&mine) {
		t.Errorf("the HTTP client is %T", c.Options().HTTPClient)
	}
	signer := v4.NewSigner()
	c := fastclient.New(clientConfig(d.URL), func(o *dynamodb.Options) { o.HTTPClient, o.HTTPSignerV4 = &mine, signer })
	if o := c.Options(); o.HTTPClient != dynamodb.HTTPClient(&mine) || o.HTTPSignerV4 != dynamodb.HTTPSignerV4(signer) {
		t.Errorf("options come last, but the client has %T, %T", o.HTTPClient, o.HTTPSignerV4)
	}
	cfg = clientConfig(d.URL)
	cfg.ClientLogMode = aws.LogSigning
	if _, stock := fastclient.New(cfg).Options().HTTPSignerV4.(*v4.Signer); !stock {
		t.Error("signatures are to be logged, which the SDK's signer does")
	}
}

// The client corrects a clock that is wrong by more than signatures allow.
func TestClientCorrectsTheClock(t *testing.T) {
	t.Parallel()
	ahead := func() time.Time { return time.Now().Add(time.Hour) }
	h := dynamolite.NewHandler(newTable(t), dynamolite.HandlerOptions{Credentials: secrets, Now: ahead})
	d := newDesk(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", ahead().UTC().Format(http.TimeFormat))
		h.ServeHTTP(w, r)
	})).started()
	c := fastclient.New(clientConfig(d.URL))
	for i, want := range []int{2, 1} {
		if err := getSomething(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got := len(d.taken()); got != want {
			t.Errorf("call %d took %d requests, want %d", i, got, want)
		}
	}
}

// The client notices that the clock was corrected, and that the SDK knows the skew already.
func TestClientFollowsTheClock(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	h := dynamolite.NewHandler(newTable(t), dynamolite.HandlerOptions{Credentials: secrets, Now: now})
	d := newDesk(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", now().UTC().Format(http.TimeFormat))
		h.ServeHTTP(w, r)
	})).started()
	c := fastclient.New(clientConfig(d.URL))
	query := func() error {
		_, err := c.ListTables(t.Context(), &dynamodb.ListTablesInput{})
		return err
	}
	for i, step := range []struct {
		ahead    time.Duration
		bySDK    bool
		requests int
	}{{time.Hour, true, 2}, {time.Hour, false, 2}, {time.Hour, false, 1}, {0, true, 2}, {0, false, 2}, {0, false, 1}, {-time.Hour, false, 2}, {-time.Hour, false, 1}} {
		ahead.Store(int64(step.ahead))
		call := query
		if !step.bySDK {
			call = func() error { return getSomething(t.Context(), c) }
		}
		if err := call(); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
		if got := len(d.taken()); got != step.requests {
			t.Errorf("step %d took %d requests, want %d", i, got, step.requests)
		}
	}
	ahead.Store(int64(time.Hour))
	if err := getSomething(t.Context(), c, once); err == nil || len(d.taken()) != 1 {
		t.Errorf("a retryer that never retries made the client repeat: %v", err)
	}
}

// Rotated credentials sign the next request, even under the same ID.
func TestClientTakesUpRotatedCredentials(t *testing.T) {
	t.Parallel()
	db := newTable(t)
	var secret, token atomic.Value
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		known, _ := secret.Load().(string)
		if got := r.Header.Get("X-Amz-Security-Token"); got != token.Load() {
			t.Errorf("the token is %q, want %q", got, token.Load())
		}
		dynamolite.NewHandler(db, dynamolite.HandlerOptions{Credentials: map[string]string{"AKID": known}}).ServeHTTP(w, r)
	})
	d := newDesk(t, h).started()
	cfg := clientConfig(d.URL)
	cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		s, _ := secret.Load().(string)
		tok, _ := token.Load().(string)
		return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: s, SessionToken: tok}, nil
	})
	c := fastclient.New(cfg)
	for _, s := range []string{"first", "second", "first", "first"} {
		secret.Store(s)
		token.Store("token of " + s)
		if err := getSomething(t.Context(), c, once); err != nil {
			t.Errorf("with the %s secret: %v", s, err)
		}
	}
}

// A call for another endpoint or region goes there and is signed for it.
func TestClientKeepsEndpointsApart(t *testing.T) {
	t.Parallel()
	one, other := newEngineDesk(t), newEngineDesk(t)
	c := fastclient.New(clientConfig(one.URL))
	there := func(o *dynamodb.Options) {
		o.BaseEndpoint, o.Region, o.Credentials = &other.URL, "eu-west-1", signedBy("AKIDNEW")
	}
	for range 2 {
		if err := errors.Join(getSomething(t.Context(), c, once), getSomething(t.Context(), c, once, there)); err != nil {
			t.Fatal(err)
		}
	}
	for d, scope := range map[*desk]string{one: "=AKIDOLD/%s/us-east-1/", other: "=AKIDNEW/%s/eu-west-1/"} {
		requests := d.taken()
		for _, r := range requests {
			day, _, _ := strings.Cut(r.Header.Get("X-Amz-Date"), "T")
			if want := fmt.Sprintf(scope, day); !strings.Contains(r.Header.Get("Authorization"), want) {
				t.Errorf("signed with %s, want %s", r.Header.Get("Authorization"), want)
			}
		}
		if len(requests) != 2 || d.connections.Load() != 1 {
			t.Errorf("%s: %d requests over %d connections, want 2 over 1", scope, len(requests), d.connections.Load())
		}
	}
}

// The SDK sends a failed request again, as often as with its own client.
func TestClientRetries(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(http.ResponseWriter){
		"server error": func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"throttle": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`)
		},
		"connection dropped": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"answer cut short": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{}")
		},
		"answer damaged": func(w http.ResponseWriter) {
			w.Header().Set("X-Amz-Crc32", "1")
			_, _ = io.WriteString(w, "{}")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int64
			d := newDesk(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if n.Add(1) <= 2 {
					fail(w)
					return
				}
				_, _ = io.WriteString(w, "{}")
			})).started()
			soon := func(o *dynamodb.Options) { o.Retryer = impatient{o.Retryer} }
			if err := getSomething(t.Context(), fastclient.New(clientConfig(d.URL), soon)); err != nil {
				t.Error(err)
			}
			requests := d.taken()
			if len(requests) != 3 {
				t.Fatalf("%d requests, want 3", len(requests))
			}
			if first, last := requests[0], requests[2]; !sameJSON(first.Body, last.Body) || last.Header.Get("Amz-Sdk-Request") != "attempt=3; max=3" {
				t.Errorf("first sent %+v, then %+v", first, last)
			}
		})
	}
}

// impatient does not wait between attempts.
type impatient struct{ aws.Retryer }

func (impatient) RetryDelay(int, error) (time.Duration, error) { return 0, nil }

// The error shows that no server was reached, so that such a write is sent again.
func TestClientTellsThatNobodyWasReached(t *testing.T) {
	t.Parallel()
	d := newDesk(t, empty).started()
	d.Close()
	err := getSomething(t.Context(), fastclient.New(clientConfig(d.URL)), once)
	dial := (*net.OpError)(nil)
	if !errors.As(err, &dial) || dial.Op != "dial" {
		t.Errorf("got %v, want that it could not connect", err)
	}
}
