package benchmarks_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A caller is one of the compared clients.
type caller struct {
	name  string
	call  func() error
	costs []callCost
}

// median is the median of a quantity of a caller's costs.
func (c *caller) median(of func(callCost) float64) float64 { return c.to(nil, of).median }

// to is the ratio to another caller: the median of the ratios of neighbouring slices. It is
// the quantity itself if there is no other caller.
func (c *caller) to(base *caller, of func(callCost) float64) estimate {
	var all []float64
	for i, cost := range c.costs {
		v := of(cost)
		if base != nil {
			v /= of(base.costs[i])
		}
		all = append(all, v)
	}
	return estimateOf(all)
}

// callers are compared with each other.
type callers []*caller

// named returns the caller of a name, nil if there is none.
func (all callers) named(name string) *caller {
	if i := slices.IndexFunc(all, func(c *caller) bool { return c.name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// measure lets the callers work in turn.
func (all callers) measure(tb testing.TB, goroutines int) {
	tb.Helper()
	for _, c := range all {
		costOfCalls(tb, goroutines, 640, c.call) // connects
	}
	for round := range *sliceRounds {
		for i := range all {
			c := all[(round+i)%len(all)]
			c.costs = append(c.costs, costOfCalls(tb, goroutines, 640, c.call))
		}
	}
}

// A callerTarget is the largest allowed ratio to another caller, or the largest quantity.
type callerTarget struct {
	what string
	of   func(callCost) float64
	base string
	most float64
}

// callerTargets are the targets of callers, by name. One without its base is left out.
var callerTargets = map[string][]callerTarget{
	"fastclient": {{"CPU to the SDK's", costCPU, "SDK", 0.28}, {"allocations to the SDK's", costAllocs, "SDK", 0.1}},
	"acquire":    {{"CPU to the SDK's", costCPU, "SDK", 0.28}, {"CPU to the socket's", costCPU, "socket", 2.5}, {"allocations", costAllocs, "", 40}},
	"cascade":    {{"CPU to an acquire's", costCPU, "acquire", 1.9}},
}

// judge says which targets a caller has met.
func (all callers) judge(tb testing.TB, server string, c *caller) string {
	tb.Helper()
	var said []string
	for _, target := range callerTargets[c.name] {
		v := hold(tb, server+": "+c.name+": "+target.what, c.to(all.named(target.base), target.of), target.most)
		said = append(said, fmt.Sprintf("%s ≤ %.4g %s", target.what, target.most, v))
	}
	return strings.Join(said, "; ")
}

// toSocket is a caller's CPU to the socket's.
func (all callers) toSocket(c *caller) string {
	if base := all.named("socket"); base != nil {
		return c.to(base, costCPU).String()
	}
	return ""
}

// newCallers are the SDK's own client, fastclient.New, and the SDK's client again.
func newCallers(t *testing.T, cfg aws.Config, rec *recording) callers {
	t.Helper()
	all := callers{{name: "SDK"}, {name: "fastclient"}, {name: "SDK again"}}
	for i, client := range []dynamo.API{dynamodb.NewFromConfig(cfg), fastclient.New(cfg), dynamodb.NewFromConfig(cfg)} {
		bare := newBare(t, client, rec)
		ctx := t.Context()
		all[i].call = func() error { return bare.do(ctx, probe) }
	}
	return all
}

func newBare(t *testing.T, api dynamo.API, rec *recording) *bareUpdate {
	t.Helper()
	bare, err := newBareUpdate(api, probe, rec.sent[0], rec.sent[1], rec.at)
	if err != nil {
		t.Fatal(err)
	}
	return bare
}

// newCanned are callers of a server that gives each operation the same answer at all times.
// "net/http" and "socket" send what fastclient sends. "acquire" is a warm acquire through
// fastclient, and "cascade" one that debits a parent, too. They are called from one goroutine
// only: several would share writes.
func newCanned(t *testing.T, cfg aws.Config, rec *recording, goroutines int) callers {
	t.Helper()
	request := sentBy(t, cfg, rec)
	all := callers{{name: "net/http", call: newSigned(t, cfg, request)}, {name: "socket", call: newSocket(t, cfg, request)}}
	if goroutines == 1 {
		family := record(t, dynamolite.New(dynamolite.Options{}), load{limits: 2, cascades: true})
		ofFamily := cfg
		ofFamily.BaseEndpoint = aws.String(serveCanned(t, family.answers(t)))
		all = append(all, &caller{name: "acquire", call: newAcquire(t, cfg, rec)}, &caller{name: "cascade", call: newAcquire(t, ofFamily, family)})
	}
	return all
}

// newAcquire returns a warm acquire through fastclient.
func newAcquire(t *testing.T, cfg aws.Config, rec *recording) func() error {
	t.Helper()
	l, ctx := newLimiter(t, fastclient.New(cfg)), t.Context()
	return func() error {
		_, err := l.Acquire(ctx, request(probe, rec.limits, amount))
		return err
	}
}

// sentBy returns the bytes that a call of fastclient sends.
func sentBy(t *testing.T, cfg aws.Config, rec *recording) []byte {
	t.Helper()
	var sent bytes.Buffer
	cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
		tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			return &tap{c, &sent}, err
		}
	})
	if err := newBare(t, fastclient.New(cfg), rec).do(t.Context(), probe); err != nil {
		t.Fatal(err)
	}
	return sent.Bytes()
}

// A tap records what is written to a connection.
type tap struct {
	net.Conn
	to *bytes.Buffer
}

func (t *tap) Write(p []byte) (int, error) {
	t.to.Write(p)
	return t.Conn.Write(p)
}

// newSigned returns the same exchange as a program on net/http makes it by hand. The body is
// there. The SDK's signer signs each request, http.Client keeps the connections, and the
// answer is read to its end and left undecoded.
func newSigned(t *testing.T, cfg aws.Config, sent []byte) func() error {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(sent)))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	signer, ctx := v4.NewSigner(), t.Context()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(client.CloseIdleConnections)
	return func() error {
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, *cfg.BaseEndpoint, bytes.NewReader(body))
		if err != nil {
			return err
		}
		for _, name := range []string{"Accept-Encoding", "Content-Type", "X-Amz-Target"} {
			q.Header[name] = r.Header[name]
		}
		who, err := cfg.Credentials.Retrieve(ctx)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		if err := signer.SignHTTP(ctx, who, q, hex.EncodeToString(sum[:]), "dynamodb", cfg.Region, time.Now()); err != nil {
			return err
		}
		answer, err := client.Do(q)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
		return errors.Join(err, answer.Body.Close())
	}
}

// newSocket returns one write and one read of the same bytes. Each goroutine has a
// connection.
func newSocket(t *testing.T, cfg aws.Config, sent []byte) func() error {
	t.Helper()
	address := strings.TrimPrefix(*cfg.BaseEndpoint, "http://")
	dial := func() (net.Conn, error) {
		return new(net.Dialer).DialContext(t.Context(), "tcp", address)
	}
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write(sent)
	answer := make([]byte, 64<<10)
	size, err := c.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	type end struct {
		net.Conn
		in []byte
	}
	idle := make(chan *end, 64)
	return func() error {
		var e *end
		select {
		case e = <-idle:
		default:
			c, err := dial()
			if err != nil {
				return err
			}
			e = &end{c, make([]byte, size)}
		}
		_, err := e.Write(sent)
		if err == nil {
			_, err = io.ReadFull(e, e.in)
		}
		idle <- e
		return err
	}
}
