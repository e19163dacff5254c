package benchmarks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// loopback repeats a real engine's earlier answer to each operation, so that only the
// client works. It runs in its own process, so that its allocations and computations are
// not counted.
var loopback = engine{
	name: "loopback", slice: 500,
	start: func(tb testing.TB, l load) (dynamo.API, *recording) {
		tb.Helper()
		rec := record(tb, dynamolite.New(dynamolite.Options{}), l)
		return newClient(serveCanned(tb, rec.answers(tb))), rec
	},
}

// lowered is loopback through fastclient.New. Its calls cost less, so the limiter's own
// part of a call is larger.
var lowered = engine{
	name: "loopback, fastclient", slice: 500,
	start: func(tb testing.TB, l load) (dynamo.API, *recording) {
		tb.Helper()
		rec := record(tb, dynamolite.New(dynamolite.Options{}), l)
		return fastclient.New(aws.Config{
			Region: "us-east-1", BaseEndpoint: aws.String(serveCanned(tb, rec.answers(tb))),
			Credentials: aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider("local", "local", "")),
		}), rec
	},
}

// newClient is the SDK's client with its defaults, except for an HTTP client that keeps its
// connections.
func newClient(endpoint string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		HTTPClient: keeper{awshttp.NewBuildableClient()},
		Region:     "us-east-1", BaseEndpoint: &endpoint,
		Credentials: aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider("local", "local", "")),
	})
}

// A keeper is an HTTP client that keeps connections even to a server this close. The SDK
// closes a request's body as soon as it has the answer, and the body's WriteTo then fails
// with io.EOF. If the answer arrives before the transport has read past the body's end, the
// transport takes that for a failed write and drops the connection. Up to a fifth of the
// measured requests would then open a connection. Without WriteTo, io.EOF is simply the end
// of the body.
type keeper struct{ *awshttp.BuildableClient }

// Do sends a request.
func (k keeper) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return k.BuildableClient.Do(r)
}

// answers are the response bodies, by operation, and those of updates by their item, too. A batch of reads is answered with all
// items ever read. That is more than requested, but the store looks items up by key.
func (r *recording) answers(tb testing.TB) map[string]string {
	tb.Helper()
	maps.Copy(r.read, r.written)
	items := make([]any, 0, len(r.read))
	for _, item := range r.read {
		items = append(items, wireItem(tb, item))
	}
	bodies := map[string]any{
		"UpdateItem":   map[string]any{"Attributes": wireItem(tb, r.image)},
		"BatchGetItem": map[string]any{"Responses": map[string]any{table: items}, "UnprocessedKeys": map[string]any{}},
	}
	for key, item := range r.written {
		bodies["UpdateItem "+key.PK] = map[string]any{"Attributes": wireItem(tb, item)}
	}
	answers := make(map[string]string)
	for op, body := range bodies {
		text, err := json.Marshal(body)
		if err != nil {
			tb.Fatal(err)
		}
		answers[op] = string(text)
	}
	return answers
}

func wireItem(tb testing.TB, item schema.Item) map[string]any {
	tb.Helper()
	wire := make(map[string]any, len(item))
	for name, v := range item {
		wire[name] = wireValue(tb, v)
	}
	return wire
}

// wireValue is an attribute in AWS JSON, for the types in buckets, configuration and
// namespaces.
func wireValue(tb testing.TB, v types.AttributeValue) map[string]any {
	tb.Helper()
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return map[string]any{"S": v.Value}
	case *types.AttributeValueMemberN:
		return map[string]any{"N": v.Value}
	case *types.AttributeValueMemberBOOL:
		return map[string]any{"BOOL": v.Value}
	case *types.AttributeValueMemberNULL:
		return map[string]any{"NULL": v.Value}
	case *types.AttributeValueMemberSS:
		return map[string]any{"SS": v.Value}
	case *types.AttributeValueMemberM:
		return map[string]any{"M": wireItem(tb, v.Value)}
	}
	tb.Fatalf("no wire form for %T", v)
	return nil
}

// serveVariable makes the test binary a server, see serveCanned.
const serveVariable = "BENCHMARKS_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) == "" {
		os.Exit(m.Run())
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "serve canned answers:", err)
		os.Exit(1)
	}
}

// serveCanned starts this binary again as a server that gives the answers, by operation,
// until the test ends. It returns the server's URL.
func serveCanned(tb testing.TB, answers map[string]string) string {
	tb.Helper()
	return ask[string](tb, startSelf(tb, serveVariable), answers)
}

// serve reads the answers from control, writes its URL to out, and serves until
// control ends.
func serve(control io.Reader, out io.Writer) error {
	decoder := json.NewDecoder(control)
	var answers map[string]string
	if err := decoder.Decode(&answers); err != nil {
		return err
	}
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, control)
		_ = l.Close()
	}()
	if err := json.NewEncoder(out).Encode("http://" + l.Addr().String()); err != nil {
		return err
	}
	server := &http.Server{Handler: canned(answers), ReadHeaderTimeout: time.Minute}
	if err := server.Serve(l); !strings.Contains(err.Error(), net.ErrClosed.Error()) {
		return err
	}
	return nil
}

// canned gives the answers, by operation, and by the partition key that a request names first if
// there is an answer for that. An operation without an answer fails like one that DynamoDB does
// not know.
func canned(answers map[string]string) http.Handler {
	type answer struct {
		body      []byte
		sum, size []string
	}
	ready := make(map[string]answer, len(answers))
	for op, body := range answers {
		sum := strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10)
		ready["DynamoDB_20120810."+op] = answer{[]byte(body), []string{sum}, []string{strconv.Itoa(len(body))}}
	}
	contentType := []string{"application/x-amz-json-1.0"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a real server answers only after it has read the request
		_, of, _ := strings.Cut(string(body), `"PK":{"S":"`)
		of, _, _ = strings.Cut(of, `"`)
		a, ok := ready[r.Header.Get("X-Amz-Target")+" "+of]
		if !ok {
			a, ok = ready[r.Header.Get("X-Amz-Target")]
		}
		header := w.Header()
		header["Content-Type"] = contentType
		if !ok {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"com.amazon.coral.service#UnknownOperationException"}`)
			return
		}
		header["X-Amz-Crc32"], header["Content-Length"] = a.sum, a.size
		header["X-Amzn-Requestid"] = []string{"CANNED"}
		_, _ = w.Write(a.body)
	})
}
