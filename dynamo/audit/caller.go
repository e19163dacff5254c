package audit

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
)

// callerTimeout bounds the request for the caller's identity: a network without access
// to STS must not delay a change for long.
const callerTimeout = 3 * time.Second

// A caller finds out, once, the ARN behind a client's credentials. A nil caller finds
// none.
type caller struct {
	sts *sts.Client
	log *slog.Logger
	// asking is full while a goroutine asks STS, and known is closed once the answer is
	// known. Together they are a lock that a context can leave.
	asking chan struct{}
	known  chan struct{}
	answer string // until known is closed, owned by the goroutine that filled asking
}

// newCaller returns a caller with the credentials and the HTTP client of a connection. It
// returns nil unless the connection's API is DynamoDB's client and talks to AWS.
func newCaller(c *conn.Conn) *caller {
	client, ok := c.API.(interface{ Options() dynamodb.Options })
	if !ok {
		return nil
	}
	options := client.Options()
	if options.Credentials == nil || !isAWS(options.BaseEndpoint) {
		return nil
	}
	return &caller{
		sts: sts.New(sts.Options{
			Region: options.Region, Credentials: options.Credentials, HTTPClient: options.HTTPClient,
			EndpointOptions: sts.EndpointResolverOptions{UseFIPSEndpoint: options.EndpointOptions.UseFIPSEndpoint},
			Logger:          options.Logger,
		}),
		log: c.Log, asking: make(chan struct{}, 1), known: make(chan struct{}),
	}
}

// isAWS reports whether an endpoint is AWS's own; a client without an explicit endpoint
// has such an endpoint. For other endpoints the credentials are made up, and AWS does
// not know them.
func isAWS(endpoint *string) bool {
	if endpoint == nil {
		return true
	}
	u, err := url.Parse(*endpoint)
	if err != nil {
		return false
	}
	for _, domain := range []string{".amazonaws.com", ".amazonaws.com.cn", ".api.aws"} {
		if strings.HasSuffix(strings.ToLower(u.Hostname()), domain) {
			return true
		}
	}
	return false
}

// arn returns the caller's ARN, "" if it cannot be found out. A failure is logged and
// not tried again. An error means that ctx has ended.
func (c *caller) arn(ctx context.Context) (string, error) {
	if c == nil {
		return "", nil
	}
	select {
	case <-c.known:
		return c.answer, nil
	default:
	}
	select {
	case <-c.known:
		return c.answer, nil
	case <-ctx.Done():
		return "", ctx.Err()
	case c.asking <- struct{}{}:
	}
	defer func() { <-c.asking }()
	select {
	case <-c.known: // another goroutine has found it meanwhile
		return c.answer, nil
	default:
	}
	bounded, cancel := context.WithTimeout(ctx, callerTimeout)
	defer cancel()
	out, err := c.sts.GetCallerIdentity(bounded, &sts.GetCallerIdentityInput{})
	if ctx.Err() != nil {
		return "", ctx.Err() // nothing was learned
	}
	if err != nil {
		c.log.WarnContext(ctx, "caller unknown: audit events name nobody unless a principal is given", "error", err)
	} else if arn := aws.ToString(out.Arn); CheckPrincipal(arn) == nil {
		c.answer = arn
	}
	close(c.known)
	return c.answer, nil
}
