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
	"github.com/zeroae/zae-limiter-go/internal/calls"
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
	w, _ := c.scratch.Get().(*scratch)
	defer c.putBack(w)
	if out, err, went := goOn[In, Out](ctx, in, w); went {
		return out, err
	}
	if c.pool == nil || in == nil || !op.plain(in) || ctx.Err() != nil {
		return op.bySDK(ctx, c, in, optFns)
	}
	r := request[In, Out]{operation: op, client: c, in: in, optFns: optFns, retryer: w.retryer(c, optFns)}
	if r.retryer == nil {
		return op.bySDK(ctx, c, in, optFns)
	}
	var err error
	if r.route, err = c.routeFor(ctx); err != nil {
		return op.bySDK(ctx, c, in, withoutCredentials(optFns, err))
	}
	if r.route == nil || !c.pool.Takes(ctx, r.route.sample) {
		return op.bySDK(ctx, c, in, optFns)
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
		out, err = r.bySDK(ctx, c, r.in, r.optFns)
		return out, err, false
	}
	s := sent{release: release, used: used, mayRepeat: mayRepeat}
	if s.answer, s.err = c.pool.Exchange(ctx, r.route.peer, text); calls.MustLeave(ctx) {
		out, err = r.here(ctx, s)
		return out, err, false
	}
	return r.conclude(ctx, s)
}

// A sent is a request that was sent, or could not be.
type sent struct {
	answer    *exchange.Answer // to be read on if err is [calls.ErrGoesOn], nil for other errors
	err       error
	release   func(error) error // ends the retryer's attempt
	used      *served           // for the signature
	mayRepeat bool              // with another signature
}

// conclude returns what became of a request. again reports that its signature was refused
// only because of our clock, which is corrected now.
func (r *request[In, Out]) conclude(ctx context.Context, s sent) (out *Out, err error, again bool) {
	if s.err != nil {
		_ = s.release(s.err)
		out, err = r.replay(ctx, &outcome{err: &url.Error{Op: "Post", URL: r.route.sample.URL.Redacted(), Err: s.err}})
		return out, err, false
	}
	now := r.client.heard(ctx, s.answer.Date)
	if out := r.plainly(ctx, s, now); out != nil {
		return out, nil, false
	}
	refused := r.refusal(ctx, s.answer)
	_ = s.release(errors.Join(errNotPlain, refused))
	switch {
	case isFinal(refused) && !r.retryer.IsErrorRetryable(refused):
		s.answer.Release()
		return nil, &smithy.OperationError{ServiceID: dynamodb.ServiceID, OperationName: r.name, Err: refused}, false
	case s.mayRepeat && now.contradicts(s.used, refused) && r.retryer.IsErrorRetryable(&clockError{refused}):
		s.answer.Release()
		return nil, nil, true
	}
	first := new(outcome)
	first.answer, first.err = s.answer.HTTP() //nolint:bodyclose // the SDK closes it
	s.answer.Release()
	out, err = r.replay(ctx, first)
	return out, err, false
}

// plainly returns the result of a request that was answered, or the result that says that the
// condition failed. It is nil for every other answer.
func (r *request[In, Out]) plainly(ctx context.Context, s sent, now *served) *Out {
	out, err := r.result(ctx, s.answer, now), error(nil)
	if out == nil {
		out, err = r.refusedPlainly(s.answer, now), errConditionFailed
	}
	if out != nil {
		s.answer.Release()
		_ = s.release(err)
	}
	return out
}

// here concludes a request whose caller must be able to leave at any time, if its outcome is
// plain. All else may take time: the rest of an answer, another attempt, what the SDK does. It
// is kept for another goroutine.
func (r *request[In, Out]) here(ctx context.Context, s sent) (*Out, error) {
	switch {
	case errors.Is(s.err, calls.ErrApart): // nothing was sent
		_ = s.release(s.err)
		return nil, s.err
	case s.err == nil:
		if out := r.plainly(ctx, s, r.client.heard(ctx, s.answer.Date)); out != nil {
			return out, nil
		}
	}
	calls.LeavableOf(ctx).Keep(&goingOn[In, Out]{*r, s})
	return nil, calls.ErrGoesOn
}

// A goingOn is a request that was only sent, or whose caller may have left.
type goingOn[In, Out any] struct {
	request[In, Out]
	sent
}

// goOn goes on with a request that was kept. went reports whether there is one.
func goOn[In, Out any](ctx context.Context, in *In, w *scratch) (out *Out, err error, went bool) {
	l := calls.LeavableOf(ctx)
	if l == nil {
		return nil, nil, false
	}
	g, went := l.Rest().(*goingOn[In, Out])
	if !went {
		return nil, nil, false
	}
	if g.in = in; errors.Is(g.err, calls.ErrGoesOn) {
		g.err = g.answer.GoOn(ctx)
	}
	if calls.MustLeave(ctx) {
		out, err = g.here(ctx, g.sent)
		return out, err, true
	}
	out, err, again := g.conclude(ctx, g.sent)
	if again {
		out, err, _ = g.send(ctx, w, false)
	}
	return out, err, true
}

// bySDK leaves a call to the SDK, of which nothing was sent, unless its caller must be able to
// leave.
func (op *operation[In, Out]) bySDK(ctx context.Context, c *Client, in *In, optFns []func(*dynamodb.Options)) (*Out, error) {
	if calls.MustLeave(ctx) {
		return nil, calls.ErrApart
	}
	return op.sdk(c.Client, ctx, in, optFns...)
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
