package dynamo

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// callerTimeout bounds the question who calls: a network without a way to STS
// must not hold up a change for long.
const callerTimeout = 3 * time.Second

// A caller finds out, once, who calls AWS with a client's credentials. A nil one
// knows nobody.
type caller struct {
	sts *sts.Client
	log *slog.Logger
	// asking is full while somebody asks, and closed once the answer is known:
	// a lock that a context can leave.
	asking chan struct{}
	known  chan struct{}
	answer string // before known is closed, of whoever fills asking
}

// newCaller asks with the credentials and the HTTP client of o.API, if that is
// DynamoDB's client and talks to AWS; nil if it is not.
func newCaller(o Options) *caller {
	client, ok := o.API.(interface{ Options() dynamodb.Options })
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
		log: o.Logger, asking: make(chan struct{}, 1), known: make(chan struct{}),
	}
}

// isAWS reports whether an endpoint is AWS's own, as that of a client is to which
// none was given. Elsewhere the credentials are made up, and AWS knows nothing
// of them.
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

// arn is the caller's, "" if it cannot be found out: that is asked once and only
// logged. An error means that ctx has ended.
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
	case <-c.known: // meanwhile
		return c.answer, nil
	default:
	}
	bounded, cancel := context.WithTimeout(ctx, callerTimeout)
	defer cancel()
	out, err := c.sts.GetCallerIdentity(bounded, &sts.GetCallerIdentityInput{})
	if ctx.Err() != nil {
		return "", ctx.Err() // nothing was learnt
	}
	if err != nil {
		c.log.WarnContext(ctx, "caller unknown: audit events name nobody unless a principal is given", "error", err)
	} else if arn := aws.ToString(out.Arn); CheckPrincipal(arn) == nil {
		c.answer = arn
	}
	close(c.known)
	return c.answer, nil
}
