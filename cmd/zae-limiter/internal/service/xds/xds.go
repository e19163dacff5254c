// Package xds receives rules from a management server, as envoyproxy/ratelimit does with
// CONFIG_TYPE=GRPC_XDS_SOTW: Envoy Gateway and the AI gateway are such servers. It speaks the
// aggregated discovery service (ADS), in which each response is the state of the world (ADR 066).
package xds

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
)

// DefaultNode is the name of a node of envoyproxy/ratelimit.
const DefaultNode = "default"

const (
	// typeURL is that of the resources.
	typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"
	// leastWait and mostWait bound the wait before the next connection, and before what was refused is
	// refused again. It doubles until that helps, and a part of it is random, so that replicas do not come
	// back all at once.
	leastWait = time.Second
	mostWait  = 30 * time.Second
	// maxMessage is the largest response, in bytes, as that of envoyproxy/ratelimit. A larger one ends
	// the connection.
	maxMessage = 4 << 20
	// maxDetail is how long the text of a refusal is at most, in bytes.
	maxDetail = 4 << 10
	// pingEvery is how often a silent connection is tested, and pingTime how long its answer may take: a
	// server that lost its power says no word. Servers of gRPC end connections with pings more often than
	// each 5 minutes.
	pingEvery = 6 * time.Minute
	pingTime  = 20 * time.Second
	// name is what is received, in logs.
	name = "rules"
)

// Options configure a [Client].
type Options struct {
	// Server is the host:port of the management server.
	Server string
	// Node and Cluster are how the server knows this service. Replicas have the same.
	Node, Cluster string
	// TLS returns the configuration of the next connection; nil does not encrypt.
	TLS func() *tls.Config
	// Dial makes connections; nil is over TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Rules receives what the server sends.
	Rules  *hot.Value[*mapping.Rules]
	Logger *slog.Logger
}

// A Client receives rules.
//
//	client                                  server
//	request  node, version "", nonce ""  ──▶
//	                                     ◀── response  version 1, nonce a: valid
//	request  version 1, nonce a          ──▶            in use
//	                                     ◀── response  version 2, nonce b: not valid
//	request  version 1, nonce b, error   ──▶            1 stays in use
//	                                     ◀── response  version 2, nonce c: not valid
//	    a wait: servers of go-control-plane send what was refused again, at once, without end
//	request  version 1, nonce c, error   ──▶
//	    the connection breaks, a wait
//	request  node, version 1, nonce ""   ──▶
type Client struct {
	o       Options
	version string // of what is in use
	refusal string // why the last response was refused; "" if it was not
	again   pause  // before a response is refused for the same reason again
}

// A pause is a wait that doubles.
type pause struct{ wait time.Duration }

// begin waits, and reports whether the context has not ended.
func (p *pause) begin(ctx context.Context) bool {
	p.wait = min(max(2*p.wait, leastWait), mostWait)
	select {
	case <-time.After(p.wait/2 + rand.N(p.wait/2)): //nolint:gosec // nobody gains by guessing it
		return true
	case <-ctx.Done():
		return false
	}
}

// New makes a client. It starts nothing.
func New(o Options) *Client { return &Client{o: o} }

// Run receives rules until the context ends.
func (c *Client) Run(ctx context.Context) {
	for next := (pause{}); ; {
		isAnswered, err := c.receive(ctx)
		if ctx.Err() != nil {
			return
		}
		c.o.Rules.Reach(ctx, c.o.Logger, name, fmt.Errorf("the management server %s: %w: the service tries again", c.o.Server, err))
		if isAnswered {
			next = pause{}
		}
		if !next.begin(ctx) {
			return
		}
	}
}

// receive receives rules over one connection, and says whether any came. Each connection is a new one,
// with the address and the certificates of then.
func (c *Client) receive(ctx context.Context) (isAnswered bool, err error) {
	conn, err := c.connect()
	if err != nil {
		return false, err
	}
	defer conn.Close() //nolint:errcheck // nothing is lost
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return false, reason(err)
	}
	c.o.Rules.Reach(ctx, c.o.Logger, name, nil)
	for next := c.request(""); ; isAnswered = true {
		if err := stream.Send(next); err != nil && !errors.Is(err, io.EOF) { // of which Recv has the reason
			return isAnswered, reason(err)
		}
		response, err := stream.Recv()
		if err != nil {
			return isAnswered, reason(err)
		}
		next = c.take(ctx, response)
	}
}

func (c *Client) connect() (*grpc.ClientConn, error) {
	with := insecure.NewCredentials()
	if c.o.TLS != nil {
		with = credentials.NewTLS(c.o.TLS())
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(with), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingTime}),
	}
	if c.o.Dial != nil {
		options = append(options, grpc.WithContextDialer(c.o.Dial))
	}
	return grpc.NewClient("dns:///"+c.o.Server, options...)
}

// request asks for what is newer than what is in use. The nonce is that of the response which it
// answers.
func (c *Client) request(nonce string) *discovery.DiscoveryRequest {
	return &discovery.DiscoveryRequest{
		Node: &core.Node{Id: c.o.Node, Cluster: c.o.Cluster, UserAgentName: "zae-limiter"}, TypeUrl: typeURL, VersionInfo: c.version, ResponseNonce: nonce,
	}
}

// take uses a response if all of it is valid, and returns what the server is told.
func (c *Client) take(ctx context.Context, response *discovery.DiscoveryResponse) *discovery.DiscoveryRequest {
	resources, rules, err := read(response)
	if err != nil {
		return c.refuse(ctx, response, resources, fmt.Errorf("version %.64q: %w", response.GetVersionInfo(), err))
	}
	c.version, c.refusal, c.again = response.GetVersionInfo(), "", pause{}
	c.o.Rules.Receive(ctx, c.o.Logger, name, resources, c.version, rules, nil)
	return c.request(response.GetNonce())
}

// refuse notes why a response is not valid. If it was refused for the same reason before, it only waits.
func (c *Client) refuse(ctx context.Context, response *discovery.DiscoveryResponse, resources []string, why error) *discovery.DiscoveryRequest {
	if text := why.Error(); text == c.refusal {
		c.again.begin(ctx)
	} else {
		c.refusal, c.again = text, pause{}
		c.o.Rules.Receive(ctx, c.o.Logger, name, resources, c.version, nil, why)
	}
	answer := c.request(response.GetNonce())
	answer.ErrorDetail = &rpc.Status{Code: int32(codes.InvalidArgument), Message: short(c.refusal)}
	return answer
}

// read makes rules of a response, and returns the names of its resources.
func read(response *discovery.DiscoveryResponse) (resources []string, rules *mapping.Rules, err error) {
	if got := response.GetTypeUrl(); got != typeURL {
		return nil, nil, fmt.Errorf("resources of type %.64q were not asked for: send %s", got, typeURL)
	}
	all := make([]*ratelimit.RateLimitConfig, len(response.GetResources()))
	resources = make([]string, len(all)) // none is no domain, and valid
	for i, r := range response.GetResources() {
		all[i] = &ratelimit.RateLimitConfig{}
		if got := r.GetTypeUrl(); got != typeURL {
			return nil, nil, fmt.Errorf("resources[%d]: the type is %.64q: send %s", i, got, typeURL)
		}
		if err := r.UnmarshalTo(all[i]); err != nil {
			return nil, nil, fmt.Errorf("resources[%d]: not a message of its type: %w", i, err)
		}
		resources[i] = all[i].GetName()
	}
	rules, err = mapping.ParseMessages(all)
	return resources, rules, err
}

// short is a text of at most maxDetail bytes. Its end may be cut off.
func short(text string) string {
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "")
	}
	return text
}

// reason is why a connection has ended.
func reason(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("it has ended the stream")
	}
	return errors.New(status.Convert(err).Message())
}
