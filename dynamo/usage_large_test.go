package dynamo_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// wide are steps of so many shards, a few of each, with names of limits as long as
// they may be; and what they add up to. Each of them has a rest of a token. With
// other limits, no two steps share one.
func wide(shards, steps, limits int, others bool) (all []dynamo.UsageStep, events int64, tokens map[string]int64) {
	tokens = map[string]int64{}
	for i := range steps {
		step := dynamo.UsageStep{Shard: i % shards, Sequence: strconv.Itoa(1e9 + i), Events: 1}
		for j := range limits {
			name := fmt.Sprint("l", j)
			if others {
				name += "." + strconv.Itoa(i)
			}
			name += strings.Repeat("x", 64-len(name))
			amount := int64(1e12 + 1_000*j + i + 1)
			step.Tokens = append(step.Tokens, limiter.Amount{Limit: name, Milli: amount})
			tokens[name] += amount
		}
		all = append(all, step)
	}
	return all, int64(steps), tokens
}

// Deltas that one write has no room for: of more shards, or of more limits, than an
// expression holds. They count once all the same, also if they come again, and
// after they were cut off between two writes.
func checkUsageInParts(t *testing.T, api dynamo.API) {
	t.Helper()
	for _, c := range []struct {
		shards, steps, limits int
		others                bool
		requests              int
	}{
		{32, 100, 24, false, 1},
		{64, 64, 100, false, 1},
		{65, 100, 2, false, 2},
		{schema.MaxShards, 2 * schema.MaxShards, 3, false, 16},
		{1, 1, 130, false, 1},
		{1, 20, 24, true, 5},
		{64, 64, 20, true, 13},
	} {
		name := fmt.Sprintf("%d.%d.%d.%t", c.shards, c.steps, c.limits, c.others)
		steps, events, tokens := wide(c.shards, c.steps, c.limits, c.others)
		f := &fault{API: api}
		s := openStore(t, f)
		f.reset()
		add(t, s, hourly(name), steps...)
		if len(f.ops) != c.requests {
			t.Errorf("%s: %d requests, want %d", name, len(f.ops), c.requests)
		}
		add(t, s, hourly(name), steps...)
		wantUsed(t, s, hourly(name), events, tokens)

		cut, writes := errors.New("the plug was pulled"), 0
		f.before = func(op string, _ any) error {
			if writes++; writes > c.requests/2 && op == "UpdateItem" {
				return cut
			}
			return nil
		}
		wantErr(t, s.AddUsage(t.Context(), &dynamo.UsageDelta{UsageKey: hourly("cut." + name), Steps: steps}), cut)
		f.before = nil
		add(t, s, hourly("cut."+name), steps...)
		wantUsed(t, s, hourly("cut."+name), events, tokens)
	}
}

func TestUsageIsWrittenInParts(t *testing.T) { t.Parallel(); checkUsageInParts(t, newTable(t)) }
