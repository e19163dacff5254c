package envoy

import (
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
)

// Keys of the dynamic metadata.
const (
	leaseKey    = "lease"
	metadataKey = "metadata" // as envoyproxy/ratelimit has it
)

// metadata is what other filters of the proxy, and its later calls, get of a call: its leases, and
// what the files say of descriptors that did not refuse. It is nil if there is nothing.
func (c *call) metadata() *structpb.Struct {
	passed := map[string]any{}
	for i := range c.asks {
		if a := &c.asks[i]; a.isMapped && !a.isOver() {
			merge(passed, a.Metadata)
		}
	}
	token := c.token()
	if token == "" && len(passed) == 0 {
		return nil
	}
	all := map[string]any{}
	if token != "" {
		all[leaseKey] = token
	}
	if len(passed) > 0 {
		all[metadataKey] = passed
	}
	out, err := structpb.NewStruct(all)
	if err != nil {
		panic(err) // values of JSON
	}
	return out
}

// merge adds values, maps within maps. Of two values that are no maps, the first one counts.
func merge(to, from map[string]any) {
	for key, value := range from {
		inner, isMap := value.(map[string]any)
		below, wasMap := to[key].(map[string]any)
		if _, isThere := to[key]; isThere && (!isMap || !wasMap) {
			continue
		}
		if to[key] = value; isMap {
			if below == nil {
				below = map[string]any{} // a map of the rules stays as it is
			}
			merge(below, inner)
			to[key] = below
		}
	}
}

// isOver reports whether a descriptor refuses, or would if its quotas were all over.
func (a *ask) isOver() bool {
	return a.Mode == mapping.Take && (a.isBlocked() || a.in != nil && a.in.isRefused())
}
