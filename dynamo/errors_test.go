package dynamo_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// translate returns the error that a store of the table makes of err.
func translate(op string, err error) error {
	name := table
	return (&conn.Conn{Table: &name}).Translate(op, err)
}

// writeRetryer is the retryer of bucket writes.
func writeRetryer() aws.Retryer {
	var o dynamodb.Options
	conn.BucketWrite(&o)
	return o.Retryer
}

func api(code string) error { return &smithy.GenericAPIError{Code: code, Message: "m"} }

func status(code int, err error) error {
	return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: code}}, Err: err}
}

// wrapped returns err as the SDK's client returns it.
func wrapped(err error) error {
	return &smithy.OperationError{ServiceID: "DynamoDB", OperationName: "UpdateItem", Err: err}
}

func dial(err error) error {
	return &smithyhttp.RequestSendError{Err: &net.OpError{Op: "dial", Net: "tcp", Err: err}}
}

func reset() error {
	return &smithyhttp.RequestSendError{Err: &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}}
}

// all lists the errors that translate distinguishes.
var all = []error{
	store.ErrHotPartition, store.ErrThrottled, store.ErrUnavailable, store.ErrConflict, store.ErrAccessDenied, store.ErrNotFound,
	context.Canceled, context.DeadlineExceeded,
}

// because returns the reasons of a throttle.
func because(reasons ...string) []types.ThrottlingReason {
	var all []types.ThrottlingReason
	for _, r := range reasons {
		all = append(all, types.ThrottlingReason{Reason: &r, Resource: aws.String("arn:aws:dynamodb:us-east-1:123456789012:table/limits")})
	}
	return all
}

var (
	isThrottled   = []error{store.ErrThrottled, store.ErrUnavailable}
	isHot         = []error{store.ErrHotPartition, store.ErrThrottled, store.ErrUnavailable}
	isConflict    = []error{store.ErrConflict}
	isDenied      = []error{store.ErrAccessDenied}
	isUnavailable = []error{store.ErrUnavailable}
)

// Flags for the requests that are sent again: writes of one item, transactions.
const (
	single = 1 << iota
	joint
	never  = 0
	always = single | joint
)

var translations = map[string]struct {
	err   error
	want  []error
	retry int
}{
	"provisioned throughput": {&types.ProvisionedThroughputExceededException{}, isThrottled, never},
	"throttling":             {&types.ThrottlingException{}, isThrottled, never},
	"throttling by code":     {api("ThrottlingException"), isThrottled, never},
	"request limit":          {api("RequestLimitExceeded"), isThrottled, never},
	"hot partition, provisioned": {
		&types.ProvisionedThroughputExceededException{ThrottlingReasons: because("TableWriteKeyRangeThroughputExceeded")}, isHot, never,
	},
	"hot partition, on demand":     {&types.ThrottlingException{ThrottlingReasons: because("TableWriteKeyRangeThroughputExceeded")}, isHot, never},
	"hot partition, request limit": {&types.RequestLimitExceeded{ThrottlingReasons: because("TableWriteKeyRangeThroughputExceeded")}, isHot, never},
	"hot partition, of reads":      {&types.ThrottlingException{ThrottlingReasons: because("TableReadKeyRangeThroughputExceeded")}, isHot, never},
	"hot partition, among others": {
		&types.ThrottlingException{ThrottlingReasons: because("IndexWriteKeyRangeThroughputExceeded", "TableWriteKeyRangeThroughputExceeded")}, isHot, never,
	},
	"hot partition of an index": {&types.ThrottlingException{ThrottlingReasons: because("IndexWriteKeyRangeThroughputExceeded")}, isThrottled, never},
	"the whole table's throughput": {
		&types.ProvisionedThroughputExceededException{ThrottlingReasons: because("TableWriteProvisionedThroughputExceeded")}, isThrottled, never,
	},
	"the table's own maximum": {&types.ThrottlingException{ThrottlingReasons: because("TableWriteMaxOnDemandThroughputExceeded")}, isThrottled, never},
	"the account's quota":     {&types.RequestLimitExceeded{ThrottlingReasons: because("TableWriteAccountLimitExceeded")}, isThrottled, never},
	"a reason without a name": {&types.ThrottlingException{ThrottlingReasons: []types.ThrottlingReason{{}}}, isThrottled, never},

	"throttled in a transaction":           {cancelled("None", "ThrottlingError"), isThrottled, never},
	"throttled after a conflict":           {cancelled("TransactionConflict", "ProvisionedThroughputExceeded"), isThrottled, never},
	"conflict":                             {&types.TransactionConflictException{}, isConflict, single},
	"cancelled by a conflict":              {cancelled("None", "TransactionConflict"), isConflict, single},
	"cancelled by a condition":             {cancelled("ConditionalCheckFailed", "None"), isConflict, never},
	"cancelled by condition and conflict":  {cancelled("TransactionConflict", "ConditionalCheckFailed"), isConflict, never},
	"cancelled by condition and throttled": {cancelled("ThrottlingError", "ConditionalCheckFailed", "None"), isConflict, never},
	"cancelled by something invalid":       {cancelled("None", "ValidationError"), nil, never},
	"in progress":                          {&types.TransactionInProgressException{}, isUnavailable, joint},
	"condition":                            {&types.ConditionalCheckFailedException{}, isConflict, never},
	"access denied":                        {api("AccessDeniedException"), isDenied, never},
	"unknown key":                          {api("UnrecognizedClientException"), isDenied, never},
	"bad signature":                        {api("InvalidSignatureException"), isDenied, never},
	"expired token":                        {api("ExpiredTokenException"), isDenied, never},
	"no token":                             {api("MissingAuthenticationTokenException"), isDenied, never},
	"clock skew":                           {skewed{api("InvalidSignatureException")}, isDenied, always},
	"no table":                             {&types.ResourceNotFoundException{}, []error{store.ErrNotFound}, never},
	"validation":                           {api("ValidationException"), nil, never},
	"idempotency":                          {&types.IdempotentParameterMismatchException{}, nil, never},
	"refused before it was sent":           {&smithy.SerializationError{Err: errors.New("x")}, nil, never},
	"server fault":                         {&types.InternalServerError{}, isUnavailable, joint},
	"503":                                  {status(http.StatusServiceUnavailable, api("ServiceUnavailable")), isUnavailable, joint},
	"502 without a code":                   {status(http.StatusBadGateway, &smithy.DeserializationError{Err: io.ErrUnexpectedEOF}), isUnavailable, joint},
	"half an answer":                       {status(http.StatusOK, &smithy.DeserializationError{Err: io.ErrUnexpectedEOF}), isUnavailable, joint},
	"connection refused":                   {dial(syscall.ECONNREFUSED), isUnavailable, always},
	"no such host":                         {dial(&net.DNSError{IsNotFound: true}), isUnavailable, always},
	"connection reset":                     {reset(), isUnavailable, joint},
	"deadline":                             {&smithy.CanceledError{Err: context.DeadlineExceeded}, []error{store.ErrUnavailable, context.DeadlineExceeded}, never},
	"cancelled by the caller":              {&smithy.CanceledError{Err: context.Canceled}, []error{context.Canceled}, never},
	"cancelled by the caller when dialing": {dial(context.Canceled), []error{context.Canceled}, never},
	"something else":                       {errors.New("x"), isUnavailable, joint},
}

// skewed marks an error as the SDK does after the local clock made a signature invalid.
type skewed struct{ error }

func (skewed) RetryableError() bool { return true }

func (s skewed) Unwrap() error { return s.error }

func TestTranslate(t *testing.T) {
	t.Parallel()
	for name, c := range translations {
		err := translate("take a token", wrapped(c.err))
		for _, sentinel := range all {
			if want := slices.Contains(c.want, sentinel); errors.Is(err, sentinel) != want {
				t.Errorf("%s: %v is %v: %v", name, err, sentinel, !want)
			}
		}
		if !strings.HasPrefix(err.Error(), "take a token: ") {
			t.Errorf("%s: %q does not begin with what was being done", name, err)
		}
		if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, c.err) {
			t.Errorf("%s: %v has lost its cause", name, err)
		}
	}
	if err := translate("x", nil); err != nil {
		t.Errorf("nil became %v", err)
	}
}

func TestBucketWritesAreRepeatedOnlyIfThatIsHarmless(t *testing.T) {
	t.Parallel()
	for name, c := range translations {
		if got := writeRetryer().IsErrorRetryable(wrapped(c.err)); got != (c.retry&single != 0) {
			t.Errorf("%s: a write repeated: %v", name, got)
		}
		if got := new(conn.JointRetryer).IsErrorRetryable(wrapped(c.err)); got != (c.retry&joint != 0) {
			t.Errorf("%s: a transaction repeated: %v", name, got)
		}
	}
	if n := writeRetryer().MaxAttempts(); n != 3 {
		t.Errorf("%d attempts, want 3", n)
	}
}

func TestConditionFailed(t *testing.T) {
	t.Parallel()
	it := schema.Item{"a": schema.N(1)}
	inTransaction := &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{
		{Code: aws.String("None")}, {Code: aws.String("ConditionalCheckFailed"), Item: it},
	}}
	for _, c := range []struct {
		err  error
		ok   bool
		item bool
	}{
		{&types.ConditionalCheckFailedException{Item: it}, true, true},
		{&types.ConditionalCheckFailedException{}, true, false},
		{inTransaction, true, true},
		{cancelled("None", "TransactionConflict"), false, false},
		{errors.New("x"), false, false},
		{nil, false, false},
	} {
		for _, err := range []error{c.err, translate("x", c.err)} {
			got, ok := conn.ConditionFailed(err)
			if ok != c.ok || (len(got) == 1) != c.item {
				t.Errorf("%v: got %v, %v", err, got, ok)
			}
		}
	}
}

// answer is a transport that gives every request the same answer.
type answer struct {
	status int
	body   string
	header http.Header
	sent   int
}

func (a *answer) Do(*http.Request) (*http.Response, error) {
	a.sent++
	return &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

func client(a *answer, provider aws.CredentialsProvider) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", HTTPClient: a, Credentials: provider, BaseEndpoint: aws.String("http://localhost"),
	})
}

var static = credentials.NewStaticCredentialsProvider("key", "secret", "")

func exception(code string) string {
	return `{"__type":"com.amazonaws.dynamodb.v20120810#` + code + `"}`
}

// Errors that the SDK's own client makes are translated too, not only those made here.
func TestErrorsOfTheSDKClient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer   answer
		provider aws.CredentialsProvider
		want     error
	}{
		"no credentials": {answer{}, credentials.NewStaticCredentialsProvider("", "", ""), store.ErrAccessDenied},
		"failing provider": {answer{}, aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, dial(syscall.ECONNREFUSED)
		})), store.ErrAccessDenied},
		"no table":      {answer{status: 400, body: exception("ResourceNotFoundException")}, static, store.ErrNotFound},
		"access denied": {answer{status: 400, body: exception("AccessDeniedException")}, static, store.ErrAccessDenied},
		"bad token":     {answer{status: 400, body: exception("UnrecognizedClientException")}, static, store.ErrAccessDenied},
		"garbled":       {answer{status: 200, body: "{"}, static, store.ErrUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) { // the SDK waits before it repeats some of them
			_, err := dynamo.Open(t.Context(), dynamo.Options{API: client(&c.answer, c.provider), Table: table})
			if !errors.Is(err, c.want) {
				t.Errorf("%s: got error %v, want %v", name, err, c.want)
			}
			if errors.Is(err, store.ErrAccessDenied) && errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s: %v is taken for an outage", name, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := dynamo.Open(ctx, dynamo.Options{API: client(&answer{}, static), Table: table})
	fixture.WantErr(t, err, context.Canceled)
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrAccessDenied) {
		t.Errorf("%v is more than cancelled", err)
	}
}

// A bucket write with an unknown outcome is sent once, whatever the client's own
// retries are.
func TestBucketWritesThroughTheSDKClient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer answer
		want   int
	}{
		{answer{status: 500, body: exception("InternalServerError")}, 1},
		{answer{status: 200, body: "{"}, 1},
		{answer{status: 400, body: exception("ConditionalCheckFailedException")}, 1},
		{answer{status: 400, body: exception("ProvisionedThroughputExceededException")}, 1},
		{answer{status: 400, body: exception("ThrottlingException")}, 1},
		{answer{status: 400, body: exception("TransactionConflictException")}, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			_, err := client(&c.answer, static).UpdateItem(t.Context(),
				&dynamodb.UpdateItemInput{TableName: aws.String(table), Key: schema.VersionKey().Item()}, conn.BucketWrite)
			if err == nil || c.answer.sent != c.want {
				t.Errorf("%s: sent %d times, want %d; error %v", c.answer.body, c.answer.sent, c.want, err)
			}
			if waited := time.Since(begun); waited > 100*time.Millisecond {
				t.Errorf("%s: waited %v", c.answer.body, waited)
			}
		})
	}
}

func TestBackoffIsDrawnBelowABoundThatDoubles(t *testing.T) {
	t.Parallel()
	const base = 2 * time.Second / 8
	for attempt, bound := range []int{1, 2, 4, 8, 8, 8} {
		for range 50 {
			if d := conn.Backoff(base, attempt); d < 0 || d >= base*8*2 || int(d) >= int(base)*bound {
				t.Fatalf("attempt %d waits %v", attempt, d)
			}
		}
	}
	for attempt := 1; attempt <= 3; attempt++ {
		if d, err := writeRetryer().RetryDelay(attempt, nil); err != nil || d < 0 {
			t.Errorf("attempt %d: %v, %v", attempt, d, err)
		}
	}
}
