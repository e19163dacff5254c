//go:build conformance

package conformance_test

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// Each library checks the version record that the other writes.
func TestInteroperationOfVersions(t *testing.T) {
	t.Parallel()
	local := peers.DynamoDBLocal(t)
	py := startPython(t, local)
	open := func(table string) (dynamo.Version, error) {
		s, err := dynamo.Open(t.Context(), dynamo.Options{API: local.Client, Table: table})
		if err != nil {
			return dynamo.Version{}, err
		}
		v, _ := s.Version()
		return v, nil
	}

	py.do("create_table", args{"table": "theirs", "region": peers.Region, "endpoint": local.Endpoint}, nil)
	if _, err := open("theirs"); !errors.Is(err, limiter.ErrNotFound) {
		t.Errorf("Go opened a table without the namespace: %v", err)
	}
	py.open("theirs", dynamo.DefaultNamespace)
	v, err := open("theirs")
	if err != nil || v.Schema != "0.10.0" {
		t.Errorf("Go reads %+v, %v of the peer's table", v, err)
	}
	for _, c := range []struct {
		least string
		want  error
	}{{"0.17.0", nil}, {"0.17.1", limiter.ErrIncompatible}, {"1.0.0", limiter.ErrIncompatible}} {
		py.call("set_version_record", args{"schema_version": "0.10.0", "client_min_version": c.least}, nil)
		if _, err := open("theirs"); !errors.Is(err, c.want) {
			t.Errorf("the peer asks for clients of %s: %v, want %v", c.least, err, c.want)
		}
	}
	py.call("set_version_record", args{"schema_version": "1.0.0", "client_min_version": "0.0.0"}, nil)
	if _, err := open("theirs"); !errors.Is(err, limiter.ErrIncompatible) {
		t.Errorf("the peer's schema is 1.0.0: %v", err)
	}

	if err := dynamo.CreateTable(t.Context(), local.Client, dynamo.TableOptions{Name: "ours"}); err != nil {
		t.Fatal(err)
	}
	var record map[string]any
	py.do("connect", args{"table": "ours", "region": peers.Region, "endpoint": local.Endpoint, "namespace": dynamo.DefaultNamespace}, nil)
	py.call("get_version_record", nil, &record)
	if record["schema_version"] != "0.10.0" || record["client_min_version"] != "0.0.0" {
		t.Errorf("Python reads %v of our table", record)
	}
}
