package connect

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// A foreignError is an answer of a server that is no service of AWS: the page of a proxy, or
// another program on the port.
type foreignError struct {
	url, status, content string
	again                bool // a proxy may answer so while the service behind it is away
}

// Error says who answered what.
func (e *foreignError) Error() string {
	return fmt.Sprintf("%s does not answer as a service of AWS does, check the address: %s, %s", e.url, e.status, e.content)
}

// ownAnswers makes a client reject the answers of servers that are no service of AWS. The SDK
// would report that it cannot decode them.
func ownAnswers(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("OwnAnswers", func(
		ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
	) (middleware.DeserializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		request, sent := in.Request.(*smithyhttp.Request)
		answer, came := out.RawResponse.(*smithyhttp.Response)
		if err != nil || !sent || !came || !isForeign(answer.Response) {
			return out, metadata, err
		}
		e := &foreignError{request.URL.Scheme + "://" + request.URL.Host, "HTTP status " + answer.Status, "no content", answer.StatusCode >= http.StatusInternalServerError}
		if content := answer.Header.Get("Content-Type"); content != "" {
			e.content = "content of type " + content
		}
		return middleware.DeserializeOutput{}, metadata, &smithyhttp.RequestSendError{Err: errors.Join(e, answer.Body.Close())}
	}), middleware.After)
}

// isForeign reports whether an answer is none of AWS, nor of a server that speaks like it: such
// a server gives the ID of the request, or answers in JSON or XML. Of an answer that is no
// error, only a web page is certain not to be one.
func isForeign(answer *http.Response) bool {
	for name := range answer.Header {
		if strings.HasPrefix(name, "X-Amz") {
			return false
		}
	}
	content, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")) // "" if it cannot be read
	if answer.StatusCode < http.StatusMultipleChoices {
		return content == "text/html"
	}
	return !strings.Contains(content, "json") && !strings.Contains(content, "xml")
}

// errNoTable says that a server has answered a request for a table with something else. The
// callers read the table.
var errNoTable = errors.New("the answer does not describe a table, as DynamoDB's does: check the address")

// readable makes the errors of a client readable; see [briefError].
func readable(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("ReadableErrors", func(
		ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
	) (middleware.InitializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleInitialize(ctx, in)
		if described, ok := out.Result.(*dynamodb.DescribeTableOutput); ok && err == nil && described.Table == nil {
			err = errNoTable
		}
		if err != nil {
			err = &briefError{err}
		}
		return out, metadata, err
	}), middleware.Before)
}

// A briefError is an error of the SDK without what the SDK says of a request that has no
// answer: a status of 0, and an empty ID.
type briefError struct{ error }

// Error is what failed.
func (e *briefError) Error() string {
	if unsent := (*smithyhttp.RequestSendError)(nil); errors.As(e.error, &unsent) {
		return unsent.Err.Error()
	}
	if canceled := (*smithy.CanceledError)(nil); errors.As(e.error, &canceled) {
		if errors.Is(canceled.Err, context.DeadlineExceeded) {
			return "no answer in time"
		}
		return canceled.Err.Error()
	}
	return e.error.Error()
}

// Unwrap is the error of the SDK.
func (e *briefError) Unwrap() error { return e.error }
