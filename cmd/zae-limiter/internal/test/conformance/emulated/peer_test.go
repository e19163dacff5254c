//go:build conformance

package emulated_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/store"
)

// A peer is the Python package on a table of LocalStack: its library and its command line.
type peer struct {
	*operator
	table  string
	script *peers.Script
}

func newPeer(op *operator, table string) *peer {
	op.t.Helper()
	return &peer{op, table, peers.StartScript(op.t, "../python/peer.py")}
}

// open opens the table with the library.
func (p *peer) open() {
	p.t.Helper()
	p.ask(map[string]any{"op": "open", "table": p.table, "region": peers.Region, "endpoint": p.cloud.Endpoint, "namespace": "default"})
}

// ask sends a request to the library, which must succeed.
func (p *peer) ask(request map[string]any) json.RawMessage {
	p.t.Helper()
	var answer struct {
		Result         json.RawMessage
		Error, Message string
	}
	if err := p.script.Ask(request, &answer); err != nil || answer.Error != "" {
		p.t.Fatalf("the peer on %v: %s: %s %v", request, answer.Error, answer.Message, err)
	}
	return answer.Result
}

// take acquires and commits one token of the limit rpd.
func (p *peer) take(entity string) {
	p.t.Helper()
	var lease int
	if err := json.Unmarshal(p.ask(map[string]any{"op": "acquire", "entity": entity, "resource": "gpt-4", "consume": map[string]int{"rpd": 1}}), &lease); err != nil {
		p.t.Fatal(err)
	}
	p.ask(map[string]any{"op": "settle", "lease": lease})
}

// cli runs a command of the peer's command line, which must succeed.
func (p *peer) cli(args ...string) string {
	p.t.Helper()
	args = append(append([]string{"-m", "zae_limiter.cli"}, args...), "--name", p.table, "--region", peers.Region, "--endpoint-url", p.cloud.Endpoint)
	cmd := exec.CommandContext(p.t.Context(), peers.Python(p.t), args...)
	cmd.Env = append(p.cloud.Environment(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("zae-limiter of the peer, %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// servesThePeer deploys our stack, and uses its table with the peer's command line and
// library and with ours in turn.
func servesThePeer(t *testing.T, cloud *peers.LocalStack) {
	t.Helper()
	op := newOperator(t, cloud)
	p := newPeer(op, "ours")
	op.must(new(outcome), "deploy", "--name", p.table, "--yes", "--gsi2-projection", "all", "--merge-quiet", "0", "--no-provisioner")
	p.cli("resource", "set-defaults", "gpt-4", "-l", "rpd:1000/day")
	own := opened(t, dynamodb.NewFromConfig(cloud.Config()), p.table)
	c, err := own.Limits(t.Context(), store.ConfigKey{Resource: "gpt-4"})
	if err != nil || len(c.Limits) != 1 || c.Limits[0].Capacity != 1000 {
		t.Errorf("the limits that the peer has set are %+v, %v", c, err)
	}
	if out := p.cli("resource", "get-defaults", "gpt-4"); !strings.Contains(out, "1,000/day") {
		t.Errorf("the peer shows %s", out)
	}
	p.cli("status")
	p.open()
	take(t, own, "shared", 1) // creates the bucket
	for range 4 {
		p.take("shared")
		take(t, own, "shared", 1)
	}
	awaitCount(t, own, "shared", counted{Events: 5, Tokens: 4*1 + 5*3}) // the peer counts no acquires
}

// plansAnAdoption lets the peer deploy its stack, uses its table with both libraries, and
// then plans our deployment of that stack.
//
// LocalStack does not see that CloudFormation would replace a table because of an index, and
// calls a change of how a name is written a replacement: it cannot execute the plan. So the
// test proves that our template keeps the table's logical ID, name and keys. The strict
// CloudFormation in cmd/zae-limiter/internal/test/cfntest judges and executes an adoption.
func plansAnAdoption(t *testing.T, cloud *peers.LocalStack) {
	t.Helper()
	op := newOperator(t, cloud)
	p := newPeer(op, "theirs")
	p.cli("deploy", "--no-alarms")
	p.cli("resource", "set-defaults", "gpt-4", "-l", "rpd:1000/day")
	p.open()
	for range 3 {
		p.take("user")
	}
	own := opened(t, dynamodb.NewFromConfig(cloud.Config()), p.table)
	take(t, own, "user", 1) // our library on the peer's table

	var planned outcome
	op.must(&planned, "deploy", "--name", p.table, "--dry-run")
	if len(planned.Changes) == 0 {
		t.Error("an adoption changes nothing")
	}
	if c, ok := planned.change("RateLimitsTable"); ok && (c.Action != "Modify" || c.Replacement == "True") {
		t.Errorf("the adoption would do this to the table: %+v", c)
	}
	for _, c := range planned.Changes {
		if c.Action == "Remove" && strings.Contains(c.Resource, "Archive") {
			t.Errorf("the adoption would remove %s", c.Resource)
		}
	}
	if left := available(t, own, "user"); left > 1000-3 { // six were taken, and one is earned every 86 s
		t.Errorf("%d tokens are left after the plan: the bucket is another", left)
	}
}

// available returns the balance of the limit rpd.
func available(t *testing.T, s *dynamo.Store, entity string) int64 {
	t.Helper()
	l, err := limiter.New(s, limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	statuses, err := l.Available(t.Context(), limiter.Request{Entity: entity, Resource: "gpt-4", Consume: map[string]int64{"rpd": 1}})
	if err != nil || len(statuses) != 1 {
		t.Fatalf("statuses %+v, %v", statuses, err)
	}
	return statuses[0].Available
}
