package fastclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"unsafe"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go/dynamo/fastclient/internal/codec"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient/internal/exchange"
)

// A scratch is the working memory of a call.
type scratch struct {
	options dynamodb.Options
	body    codec.Writer
	sign    signBuffer
}

// A request is a call that the Client makes itself, for now.
type request[In, Out any] struct {
	*operation[In, Out]
	client  *Client
	in      *In
	optFns  []func(*dynamodb.Options)
	retryer aws.Retryer
	route   *route
}

// call makes a call. Either it sends nothing, and the SDK makes the call. Or it sends the
// request once. Then it returns a result or a failed condition itself, and the SDK
// continues from everything else, as from its own first attempt.
func call[In, Out any](ctx context.Context, c *Client, op *operation[In, Out], in *In, optFns []func(*dynamodb.Options)) (*Out, error) {
	if c.pool == nil || in == nil || !op.plain(in) || ctx.Err() != nil {
		return op.sdk(c.Client, ctx, in, optFns...)
	}
	w, _ := c.scratch.Get().(*scratch)
	defer c.putBack(w)
	r := request[In, Out]{operation: op, client: c, in: in, optFns: optFns, retryer: w.retryer(c, optFns)}
	if r.retryer == nil {
		return op.sdk(c.Client, ctx, in, optFns...)
	}
	if r.route = c.routeFor(ctx); r.route == nil || !c.pool.Takes(ctx, r.route.sample) {
		return op.sdk(c.Client, ctx, in, optFns...)
	}
	out, err, again := r.send(ctx, w, true)
	if again {
		out, err, _ = r.send(ctx, w, false)
	}
	return out, err
}

// send sends the request once. again reports that its signature was refused only because
// of our clock, which is corrected now.
func (r *request[In, Out]) send(ctx context.Context, w *scratch, mayRepeat bool) (out *Out, err error, again bool) {
	c, used := r.client, r.client.server.Load()
	input, _ := any(r.in).(smithy.Serializable)
	text, plain := w.request(r.route, r.name, input, c.now().Add(used.clockSkew()))
	var release func(error) error
	if plain {
		release, err = attempt(ctx, r.retryer)
	}
	if !plain || err != nil {
		out, err = r.sdk(c.Client, ctx, r.in, r.optFns...)
		return out, err, false
	}
	answer, err := c.pool.Exchange(ctx, r.route.peer, text)
	if err != nil {
		_ = release(err)
		out, err = r.replay(ctx, &outcome{err: &url.Error{Op: "Post", URL: r.route.sample.URL.Redacted(), Err: err}})
		return out, err, false
	}
	now := c.heard(ctx, answer.Date)
	if out := r.result(ctx, answer, now); out != nil {
		answer.Release()
		_ = release(nil)
		return out, nil, false
	}
	if out := r.refusedPlainly(answer, now); out != nil {
		answer.Release()
		_ = release(errConditionFailed)
		return out, nil, false
	}
	refused := r.refusal(ctx, answer)
	_ = release(errors.Join(errNotPlain, refused))
	switch {
	case isFinal(refused) && !r.retryer.IsErrorRetryable(refused):
		answer.Release()
		return nil, &smithy.OperationError{ServiceID: dynamodb.ServiceID, OperationName: r.name, Err: refused}, false
	case mayRepeat && now.contradicts(used, refused) && r.retryer.IsErrorRetryable(&clockError{refused}):
		answer.Release()
		return nil, nil, true
	}
	first := new(outcome)
	first.answer, first.err = answer.HTTP() //nolint:bodyclose // the SDK closes it
	answer.Release()
	out, err = r.replay(ctx, first)
	return out, err, false
}

// putBack keeps working memory for the next call, unless it is large.
func (c *Client) putBack(w *scratch) {
	const kept = 64 << 10
	if w.body.Cap() <= kept {
		c.scratch.Put(w)
	}
}

// retryer returns the retryer of a call, nil if the call's options change more than the
// client does itself.
func (w *scratch) retryer(c *Client, optFns []func(*dynamodb.Options)) aws.Retryer {
	if len(optFns) == 0 {
		return c.options.Retryer
	}
	w.options = c.options
	for _, fn := range optFns {
		fn(&w.options)
	}
	retryer := w.options.Retryer
	w.options.Retryer = c.options.Retryer
	w.options.RetryMaxAttempts, w.options.RetryMode = c.options.RetryMaxAttempts, c.options.RetryMode
	w.options.DisableValidateResponseChecksum = c.options.DisableValidateResponseChecksum
	if !bytes.Equal(memory(&w.options), memory(&c.options)) {
		return nil
	}
	return retryer
}

// memory returns the bytes of options. Options with the same bytes are equal, whatever
// fields the SDK adds to them. Comparing the fields instead would need a list of them,
// and fails for functions.
func memory(o *dynamodb.Options) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(o)), unsafe.Sizeof(*o))
}

// attempt waits until the retryer allows an attempt.
func attempt(ctx context.Context, retryer aws.Retryer) (release func(error) error, err error) {
	if v2, ok := retryer.(aws.RetryerV2); ok {
		return v2.GetAttemptToken(ctx)
	}
	return retryer.GetInitialToken(), nil
}

// errNotPlain is what a retryer learns of an attempt that the SDK will evaluate.
var errNotPlain = errors.New("the attempt did not succeed")

// result returns the result in an answer, nil if there is none. The SDK's own decoder
// reads what the codec does not.
func (r *request[In, Out]) result(ctx context.Context, answer *exchange.Answer, now *served) *Out {
	if answer.Status != http.StatusOK {
		return nil
	}
	out := r.read(r.in, answer.Body)
	if out == nil {
		out = new(Out)
		response := smithyhttp.Response{Response: &http.Response{StatusCode: answer.Status, Body: io.NopCloser(bytes.NewReader(answer.Body))}}
		target, _ := any(out).(smithy.Deserializable)
		if r.client.options.Protocol.DeserializeResponse(ctx, r.schema, dynamodb.TypeRegistry, &response, target) != nil {
			return nil
		}
	}
	*r.metadata(out) = now.metadataOf()
	return out
}

// errConditionFailed is the error of every condition that failed, for a retryer.
var errConditionFailed error = &types.ConditionalCheckFailedException{}

// refusedPlainly returns the result that says that the condition failed, if the operation
// has one and the retryer agrees. It returns nil for every other answer.
func (r *request[In, Out]) refusedPlainly(answer *exchange.Answer, now *served) *Out {
	if r.readRefusal == nil || answer.Status != http.StatusBadRequest || !answer.IsPlain() || r.retryer.IsErrorRetryable(errConditionFailed) {
		return nil
	}
	out := r.readRefusal(r.in, answer.Body)
	if out != nil {
		*r.metadata(out) = now.metadataOf()
	}
	return out
}

// refusal returns the error in an answer, nil if there is none. The SDK's own decoder reads
// what the codec does not.
func (r *request[In, Out]) refusal(ctx context.Context, answer *exchange.Answer) error {
	if answer.Status != http.StatusBadRequest {
		return nil
	}
	plain, err := answer.HTTP() //nolint:bodyclose // a reader of memory
	if err != nil {
		return nil //nolint:nilerr // the SDK evaluates the answer
	}
	response := &smithyhttp.Response{Response: plain}
	if message, it, ok := codec.ReadRefusal(string(answer.Body)); ok && plain.Header.Get("X-Amzn-Errortype") == "" {
		return asResponseError(response, &types.ConditionalCheckFailedException{Message: &message, Item: it})
	}
	err = r.client.options.Protocol.DeserializeResponse(ctx, r.schema, dynamodb.TypeRegistry, response, nil)
	if broken := (*smithy.DeserializationError)(nil); err == nil || errors.As(err, &broken) {
		return nil
	}
	return asResponseError(response, err)
}

func asResponseError(response *smithyhttp.Response, err error) error {
	return &awshttp.ResponseError{
		ResponseError: &smithyhttp.ResponseError{Response: response, Err: err},
		RequestID:     response.Header.Get("X-Amzn-Requestid"),
	}
}

// isFinal reports whether an error is part of normal work: a condition that failed.
func isFinal(err error) bool {
	failed, cancelled := (*types.ConditionalCheckFailedException)(nil), (*types.TransactionCanceledException)(nil)
	return errors.As(err, &failed) || errors.As(err, &cancelled)
}

// An outcome is what became of the attempt that a Client made: an answer or an error. It
// is the SDK's HTTP client for the rest of the call: it returns the outcome to the first
// attempt, and sends the others.
type outcome struct {
	answer *http.Response
	err    error
	told   bool
	next   dynamodb.HTTPClient
}

// Do returns the outcome, or sends a request.
func (o *outcome) Do(r *http.Request) (*http.Response, error) {
	if o.told {
		return o.next.Do(r)
	}
	o.told = true
	if r.Body != nil {
		_ = r.Body.Close()
	}
	if o.answer != nil {
		o.answer.Request = r
	}
	return o.answer, o.err
}

// replay lets the SDK continue a call. The SDK signs with the same credentials, so that
// nothing waits or fails between the attempt that was made and its evaluation.
func (r *request[In, Out]) replay(ctx context.Context, first *outcome) (*Out, error) {
	first.next = r.client.pool
	out, err := r.sdk(r.client.Client, ctx, r.in, append(slices.Clip(r.optFns), func(o *dynamodb.Options) {
		o.HTTPClient, o.Credentials = first, &fixed{o.Credentials, r.route.credentials}
	})...)
	if first.told || err == nil {
		return out, err
	}
	// The SDK failed before it asked for the outcome, as it does after the context has
	// ended. Its error would say that nothing was sent.
	cause := ctx.Err()
	if cause == nil {
		cause = first.err
	}
	if cause == nil {
		cause = fmt.Errorf("status %d", first.answer.StatusCode)
	}
	return nil, &smithy.OperationError{
		ServiceID: dynamodb.ServiceID, OperationName: r.name,
		Err: fmt.Errorf("the request was sent, and its outcome is not known: %w", cause),
	}
}
