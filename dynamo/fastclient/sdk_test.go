package fastclient_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/direct"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/store/storetest"
)

// isOurs reports whether the Client made a request, and not the SDK.
func isOurs(h http.Header) bool { return h.Get("Amz-Sdk-Invocation-Id") == "" }

// A twin sends the requests of a Client to an engine, and compares each with the SDK's.
type twin struct {
	*fastclient.Client
	sdk *dynamodb.Client
	// maps reports that updates take the SDK's form; updates counts those in the other.
	maps    bool
	updates atomic.Int64

	mu       sync.Mutex
	expected map[string]int // the SDK's bodies, in one order of members
	sent     map[string]int // the Client's requests by operation
	failures []string
}

// A recorder takes the SDK's requests and answers nothing.
type recorder struct{ take func(target, body string) }

func (r recorder) Do(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	if err == nil {
		r.take(q.Header.Get("X-Amz-Target"), string(body))
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, err
}

// ordered is a body with its members in one order.
func ordered(target, body string) string {
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		return err.Error()
	}
	text, _ := json.Marshal(v)
	return target + " " + strconv.Itoa(len(body)) + string(text)
}

// expects lets the SDK make a request that is not sent.
func expects[In, Out any](ctx context.Context, w *twin, call func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error), in *In) {
	_, _ = call(context.WithoutCancel(ctx), in, func(o *dynamodb.Options) {
		o.HTTPClient = recorder{func(target, body string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.expected[ordered(target, body)]++
		}}
	})
}

func (w *twin) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	expects(ctx, w, w.sdk.GetItem, in)
	return w.Client.GetItem(ctx, in, o...)
}

func (w *twin) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	expects(ctx, w, w.sdk.PutItem, in)
	return w.Client.PutItem(ctx, in, o...)
}

func (w *twin) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	expects(ctx, w, w.sdk.UpdateItem, in)
	return w.Client.UpdateItem(ctx, in, o...)
}

// Updater compares updates in the Client's own form, too.
func (w *twin) Updater(api any, table string) direct.Updater {
	if w.maps || api != any(w) {
		return nil
	}
	return twinUpdater{w, direct.UpdaterOf(w.Client, table)}
}

type twinUpdater struct {
	*twin
	own direct.Updater
}

func (u twinUpdater) Update(ctx context.Context, update direct.Update, o ...func(*dynamodb.Options)) (direct.Answer, error) {
	expects(ctx, u.twin, u.sdk.UpdateItem, update.Input())
	u.updates.Add(1)
	return u.own.Update(ctx, update, o...)
}

func (w *twin) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	expects(ctx, w, w.sdk.BatchGetItem, in)
	return w.Client.BatchGetItem(ctx, in, o...)
}

func (w *twin) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	with := *in
	if with.ClientRequestToken == nil {
		with.ClientRequestToken = aws.String(rand.Text())
	}
	expects(ctx, w, w.sdk.TransactWriteItems, &with)
	return w.Client.TransactWriteItems(ctx, &with, o...)
}

// check compares a request with the SDK's.
func (w *twin) check(r *http.Request, body string, who aws.Credentials) {
	w.mu.Lock()
	defer w.mu.Unlock()
	target := r.Header.Get("X-Amz-Target")
	if w.expected[ordered(target, body)]--; w.expected[ordered(target, body)] < 0 {
		w.failures = append(w.failures, "the SDK did not write "+target+" "+body)
	}
	w.sent[target]++
	if want := signature(r.Context(), r, body, who); want != r.Header.Get("Authorization") {
		w.failures = append(w.failures, "the SDK signs "+want+", not "+r.Header.Get("Authorization"))
	}
}

// signature is the SDK's for a request that arrived.
func signature(ctx context.Context, r *http.Request, body string, who aws.Credentials) string {
	q := r.Clone(ctx)
	q.Header.Del("Authorization")
	q.URL.Host = r.Host
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(ctx, who, q, hex.EncodeToString(sum[:]), "dynamodb", "us-east-1", at); err != nil {
		return err.Error()
	}
	return q.Header.Get("Authorization")
}

// Every request that the store sends has the SDK's body, up to the order of members, and
// the signature of the SDK's signer; and the store works. That holds for both forms of
// updates.
func TestLongEveryWriteIsTheSDKs(t *testing.T) {
	t.Parallel()
	for name, maps := range map[string]bool{"maps": true, "attributes": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkEveryWrite(t, maps)
		})
	}
}

func checkEveryWrite(t *testing.T, maps bool) {
	t.Helper()
	who := aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret", SessionToken: "a token"}
	w := &twin{maps: maps, expected: make(map[string]int), sent: make(map[string]int)}
	h := dynamolite.NewHandler(newTable(t), dynamolite.HandlerOptions{})
	d := newDesk(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if isOurs(r.Header) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			w.check(r, string(body), who)
		}
		h.ServeHTTP(rw, r)
	})).started()
	cfg := clientConfig(d.URL)
	cfg.Credentials = credentials.StaticCredentialsProvider{Value: who}
	w.Client, w.sdk = fastclient.New(cfg), dynamodb.NewFromConfig(cfg)
	opened := 0
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) storetest.Store {
			t.Helper()
			w.mu.Lock()
			opened++
			name := "ns-" + strconv.Itoa(opened)
			w.mu.Unlock()
			o := dynamo.Options{API: w, Table: table, Namespace: name, Timeout: time.Minute}
			namespaces, err := admin.NewNamespaces(o)
			if err == nil {
				_, err = namespaces.Register(t.Context(), name)
			}
			if err != nil {
				t.Fatal(err)
			}
			s, err := dynamo.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			return s
		})
	})
	for _, f := range w.failures[:min(len(w.failures), 5)] {
		t.Error(f)
	}
	for _, op := range []string{"GetItem", "UpdateItem", "BatchGetItem", "TransactWriteItems"} {
		if w.sent["DynamoDB_20120810."+op] == 0 {
			t.Errorf("the Client sent no %s: %v", op, w.sent)
		}
	}
	if n := w.updates.Load(); (n == 0) != maps {
		t.Errorf("%d updates had the Client's own form", n)
	}
}

// Whatever the server answers, the caller gets what the SDK's client would get, after as
// many requests.
func TestClientDecidesAsTheSDK(t *testing.T) {
	t.Parallel()
	coral := func(name, more string) string {
		return `{"__type":"com.amazonaws.dynamodb.v20120810#` + name + `","message":"why"` + more + `}`
	}
	answers := map[string]struct {
		status int
		body   string
	}{
		"a failed condition":        {400, coral("ConditionalCheckFailedException", `,"Item":`+image)},
		"one without an item":       {400, coral("ConditionalCheckFailedException", "")},
		"one in another way":        {400, `{"Message":"why","__type":"ConditionalCheckFailedException:http://x/","Item":{"a":{"M":{}}}}`},
		"a cancelled transaction":   {400, coral("TransactionCanceledException", `,"CancellationReasons":[{"Code":"ConditionalCheckFailed","Item":`+image+`},{"Code":"None"}]`)},
		"a conflict":                {400, coral("TransactionConflictException", "")},
		"a throttle":                {400, coral("ProvisionedThroughputExceededException", `,"ThrottlingReasons":[{"reason":"TableWriteKeyRangeThroughputExceeded"}]`)},
		"a throttled account":       {400, coral("ThrottlingException", "")},
		"no table":                  {400, coral("ResourceNotFoundException", "")},
		"a bad request":             {400, `{"__type":"com.amazon.coral.validate#ValidationException","message":"why"}`},
		"a wrong signature":         {400, `{"__type":"com.amazon.coral.service#InvalidSignatureException","message":"why"}`},
		"no permission":             {400, `{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"why"}`},
		"an expired token":          {400, `{"__type":"com.amazon.coral.service#ExpiredTokenException","message":"why"}`},
		"an unknown error":          {400, `{}`},
		"a refusal without content": {400, ``},
		"a refusal that is no JSON": {400, `<html>`},
		"forbidden":                 {403, `{"message":"why"}`},
		"a large request":           {413, ``},
		"a server error":            {500, coral("InternalServerError", "")},
		"unavailable":               {503, ``},
		"a result":                  {200, `{"Attributes":` + image + `}`},
		"no content":                {200, ``},
		"an odd result":             {200, `{"Attributes":{"a":{"SS":["a"]}},"ConsumedCapacity":{"CapacityUnits":1.5}}`},
		"a result that is no JSON":  {200, `<html>`},
		"a result of another kind":  {200, `[]`},
		"a redirect":                {301, ``},
		"created":                   {201, `{"Attributes":` + image + `}`},
	}
	for name, a := range answers {
		for option, retry := range map[string]func(*dynamodb.Options){
			"patiently": func(o *dynamodb.Options) { o.Retryer = impatient{o.Retryer} }, "as a bucket write": conn.BucketWrite, "once": once,
			"in any case": func(o *dynamodb.Options) { o.Retryer = stubborn{impatient{o.Retryer}} },
		} {
			t.Run(name+" "+option, func(t *testing.T) {
				t.Parallel()
				var got [2]string
				for i, newClient := range []func(aws.Config) dynamo.API{newSDK, newFast} {
					d := newDesk(t, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
						rw.Header().Set("X-Amzn-Requestid", "ID")
						rw.WriteHeader(a.status)
						_, _ = io.WriteString(rw, a.body)
					})).started()
					out, err := newClient(clientConfig(d.URL)).UpdateItem(t.Context(), bucketWrite(), retry)
					it, failed := conn.ConditionFailed(err)
					got[i] = fmt.Sprintf("%v, requests %d, failed %t, image %s, transaction %d; %v", err, len(d.taken()), failed, text(it), len(conn.Cancellation(err)), chain(err))
					if answer := (*smithyhttp.ResponseError)(nil); errors.As(err, &answer) && answer.Response != nil {
						got[i] += answer.Response.Header.Get("X-Amzn-Requestid") + strconv.FormatBool(answer.Response.Header.Get("Date") != "")
					}
					if out != nil {
						got[i] += text(out.Attributes) + text(out.ConsumedCapacity)
					}
				}
				if got[0] != got[1] {
					t.Errorf("the SDK: %s\n   ours: %s", got[0], got[1])
				}
			})
		}
	}
}

// stubborn repeats every attempt that failed.
type stubborn struct{ aws.Retryer }

func (stubborn) IsErrorRetryable(error) bool { return true }

func text(v any) string {
	data, err := json.Marshal(v)
	return string(data) + fmt.Sprint(err)
}

// chain is the types in the chain of an error.
func chain(err error) (all []string) {
	for ; err != nil; err = errors.Unwrap(err) {
		all = append(all, fmt.Sprintf("%T", err))
	}
	return all
}

// A call is the SDK's own where the options ask for what the Client does not do.
func TestOptionsOfTheSDK(t *testing.T) {
	t.Parallel()
	nothing := func(*middleware.Stack) error { return nil }
	option := func(f func(*dynamodb.Options)) [2]func(*dynamodb.Options) { return [2]func(*dynamodb.Options){f} }
	mine := func(o *dynamodb.Options) { o.HTTPClient = &http.Client{} }
	for name, c := range map[string]struct {
		ours   bool
		config func(*aws.Config)
		of     [2]func(*dynamodb.Options) // of the client, of the call
	}{
		"none":                      {ours: true},
		"a name for the user agent": {ours: true, config: func(c *aws.Config) { c.AppID = "app" }},
		"attempts":                  {ours: true, config: func(c *aws.Config) { c.RetryMaxAttempts = 7 }},
		"a retryer":                 {ours: true, of: option(once)},
		"adaptive retries":          {ours: true, config: func(c *aws.Config) { c.RetryMode = aws.RetryModeAdaptive }},
		"a retryer of the call":     {ours: true, of: [2]func(*dynamodb.Options){nil, once}},
		"a bucket write":            {ours: true, of: [2]func(*dynamodb.Options){nil, conn.BucketWrite}},
		"attempts of the call":      {ours: true, of: [2]func(*dynamodb.Options){nil, func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 }}},
		"an HTTP client":            {of: option(mine)},
		"an HTTP client of cfg":     {config: func(c *aws.Config) { c.HTTPClient = &http.Client{} }},
		"of the call":               {of: [2]func(*dynamodb.Options){nil, mine}},
		"a time limit of it all":    {config: func(c *aws.Config) { c.HTTPClient = awshttp.NewBuildableClient().WithTimeout(time.Minute) }},
		"middleware":                {of: option(dynamodb.WithAPIOptions(nothing))},
		"middleware of cfg":         {config: func(c *aws.Config) { c.APIOptions = append(c.APIOptions, nothing) }},
		"middleware of the call":    {of: [2]func(*dynamodb.Options){nil, dynamodb.WithAPIOptions(nothing)}},
		"interceptors":              {config: func(c *aws.Config) { c.Interceptors.AddBeforeSigning(interceptor{}) }},
		"interceptors of the call":  {of: [2]func(*dynamodb.Options){nil, func(o *dynamodb.Options) { o.Interceptors.AddBeforeSigning(interceptor{}) }}},
		"a signer":                  {of: option(func(o *dynamodb.Options) { o.HTTPSignerV4 = signer{v4.NewSigner()} })},
		"a log":                     {config: func(c *aws.Config) { c.ClientLogMode = aws.LogRetries }},
		"a log of the call":         {of: [2]func(*dynamodb.Options){nil, func(o *dynamodb.Options) { o.ClientLogMode = aws.LogRetries }}},
		"discovery of endpoints":    {of: option(func(o *dynamodb.Options) { o.EndpointDiscovery.EnableEndpointDiscovery = aws.EndpointDiscoveryEnabled })},
		"a resolver of endpoints":   {of: option(func(o *dynamodb.Options) { o.EndpointResolverV2 = resolver{o.EndpointResolverV2} })},
		"compressed answers":        {of: option(func(o *dynamodb.Options) { o.EnableAcceptEncodingGzip = true })},
		"a region of the call":      {of: [2]func(*dynamodb.Options){nil, func(o *dynamodb.Options) { o.Region = "eu-west-1" }}},
		"credentials of the call":   {of: [2]func(*dynamodb.Options){nil, func(o *dynamodb.Options) { o.Credentials = signedBy("AKIDNEW") }}},
		"no credentials":            {config: func(c *aws.Config) { c.Credentials = aws.AnonymousCredentials{} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, empty).started()
			cfg := clientConfig(d.URL)
			if c.config != nil {
				c.config(&cfg)
			}
			var of [2][]func(*dynamodb.Options)
			for i, o := range c.of {
				if o != nil {
					of[i] = []func(*dynamodb.Options){o}
				}
			}
			api := fastclient.New(cfg, of[0]...)
			for range 2 {
				if _, err := api.UpdateItem(t.Context(), bucketWrite(), of[1]...); err != nil && c.config == nil {
					t.Error(err)
				}
			}
			var ours []bool
			for _, r := range d.taken() {
				if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateItem") {
					ours = append(ours, isOurs(r.Header))
				}
			}
			if !slices.Equal(ours, []bool{c.ours, c.ours}) {
				t.Errorf("the Client made %v, want %t", ours, c.ours)
			}
		})
	}
}

// A program may give the Client another SDK's client. Its middleware sees what is not plain.
func TestAnotherClientOfTheSDK(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	d := newDesk(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, "{}")
	})).started()
	seen := 0
	c := fastclient.New(clientConfig(d.URL))
	c.Client = dynamodb.NewFromConfig(clientConfig(d.URL), dynamodb.WithAPIOptions(func(s *middleware.Stack) error {
		return s.Deserialize.Add(middleware.DeserializeMiddlewareFunc("see", func(
			ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
		) (middleware.DeserializeOutput, middleware.Metadata, error) {
			out, metadata, err := next.HandleDeserialize(ctx, in)
			if answer, ok := out.RawResponse.(*smithyhttp.Response); ok && answer.StatusCode == http.StatusForbidden {
				seen++
			}
			return out, metadata, err
		}), middleware.After)
	}))
	for _, code := range []int64{http.StatusOK, http.StatusForbidden} {
		status.Store(code)
		_, err := c.UpdateItem(t.Context(), bucketWrite())
		requests := d.taken()
		if (err == nil) != (code == http.StatusOK) || len(requests) != 1 || !isOurs(requests[0].Header) {
			t.Errorf("status %d: %v after %+v", code, err, requests)
		}
	}
	if seen != 1 {
		t.Errorf("the middleware saw %d refusals, want 1", seen)
	}
}

type interceptor struct{}

func (interceptor) BeforeSigning(context.Context, *smithyhttp.InterceptorContext) error { return nil }

type signer struct{ dynamodb.HTTPSignerV4 }

type resolver struct{ dynamodb.EndpointResolverV2 }

// The Client sends to the SDK's endpoint, and signs for its region.
func TestEndpointsAreTheSDKs(t *testing.T) {
	t.Parallel()
	account := credentials.StaticCredentialsProvider{Value: aws.Credentials{AccessKeyID: "A", SecretAccessKey: "s", AccountID: "123456789012"}}
	arn := "arn:aws:dynamodb:us-east-1:210987654321:table/limits"
	for name, c := range map[string]struct {
		region, table string
		option        func(*dynamodb.Options)
	}{
		"of a region": {region: "eu-central-1"}, "of China": {region: "cn-north-1"}, "of the government": {region: "us-gov-west-1"},
		"dual stack":    {option: func(o *dynamodb.Options) { o.EndpointOptions.UseDualStackEndpoint = aws.DualStackEndpointStateEnabled }},
		"FIPS":          {option: func(o *dynamodb.Options) { o.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateEnabled }},
		"of an account": {option: func(o *dynamodb.Options) { o.Credentials = account }},
		"of no account": {option: func(o *dynamodb.Options) {
			o.Credentials, o.AccountIDEndpointMode = account, aws.AccountIDEndpointModeDisabled
		}},
		"of the table's account": {table: arn, option: func(o *dynamodb.Options) { o.Credentials = account }},
		"of a VPC": {option: func(o *dynamodb.Options) {
			o.BaseEndpoint = aws.String("https://vpce-1.dynamodb.us-east-1.vpce.amazonaws.com")
		}},
		"with a path":   {option: func(o *dynamodb.Options) { o.BaseEndpoint = aws.String("https://proxy.example/db") }},
		"with its port": {option: func(o *dynamodb.Options) { o.BaseEndpoint = aws.String("https://db.example:443") }},
		"of IPv6":       {option: func(o *dynamodb.Options) { o.BaseEndpoint = aws.String("http://[::1]:8000") }},
		"without TLS":   {option: func(o *dynamodb.Options) { o.EndpointOptions.DisableHTTPS = true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var dialled [2][]string
			var errs [2]string
			for i, newClient := range []func(aws.Config, func(*dynamodb.Options)) dynamo.API{
				func(cfg aws.Config, o func(*dynamodb.Options)) dynamo.API { return dynamodb.NewFromConfig(cfg, o) },
				func(cfg aws.Config, o func(*dynamodb.Options)) dynamo.API { return fastclient.New(cfg, o) },
			} {
				cfg := aws.Config{Region: c.region, Credentials: signedBy("AKIDOLD")}
				if cfg.Region == "" {
					cfg.Region = "us-east-1"
				}
				cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
					tr.Proxy = nil
					tr.DialContext = func(_ context.Context, _, address string) (net.Conn, error) {
						dialled[i] = append(dialled[i], address)
						return nil, &net.OpError{Op: "dial", Err: errors.New("nobody is there")}
					}
				})
				if c.option == nil {
					c.option = func(*dynamodb.Options) {}
				}
				in := bucketWrite()
				if c.table != "" {
					in.TableName = &c.table
				}
				_, err := newClient(cfg, c.option).UpdateItem(t.Context(), in, once)
				errs[i] = fmt.Sprint(err)
			}
			if !slices.Equal(dialled[0], dialled[1]) || len(dialled[0]) != 1 || errs[0] != errs[1] {
				t.Errorf("the SDK calls %v: %s\n   we call %v: %s", dialled[0], errs[0], dialled[1], errs[1])
			}
		})
	}
}
