package sim_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// This file has the laws of disabled buckets. A bucket is disabled by a level, and by a mark
// on each of its items. The mark ends what clients take at once, whatever they remember.

// policies are those of a switch.
var policies = map[string]store.Policy{"": store.Inherit, "off": store.Yes, "on": store.No, "bypass": store.Bypass}

// turn sets the switch of a level, and gives it an end if that is not 0.
func (o operator) turn(k limiter.ConfigKey, next string, lasts time.Duration) {
	from := o.w.now()
	to := dynamo.Switch{Policy: policies[next], Cause: dynamo.Cause{Key: strings.ReplaceAll(o.name, "#", "-") + "." + next}}
	if lasts != 0 {
		to.Until = o.w.start.Add(from + lasts).Truncate(time.Millisecond)
	}
	o.carryOn(func(ctx context.Context, c *client) error {
		_, err := c.store.SetSwitch(ctx, k, to, nil)
		return err
	})
	o.changed(k, from, o.configs[k], next)
	o.marked(k)
	if lasts != 0 {
		end := to.Until.Sub(o.w.start)
		o.w.sleep(max(0, end-o.w.now()) + 2*o.w.odds.skew)
		o.changed(k, end-2*o.w.odds.skew, o.configs[k], "")
	}
}

// marked: when a command is answered, every item below its level is as all levels say. One
// that was created with configuration read more than a second before may be missed, and an
// end by itself leaves the marks to those who meet them.
func (o operator) marked(k limiter.ConfigKey) {
	for _, id := range o.itemsOf(func(id bucketID) bool { return slices.Contains(levelsOf(id.whole()), k) }) {
		all := o.versions(id.whole())
		last := all[len(all)-1]
		off := last.off
		o.w.mu.Lock()
		s := o.w.items[id]
		late := o.w.madeLateLocked(id, s)
		o.w.mu.Unlock()
		if counts := s.bypass > o.w.trueMS(o.w.now()); counts != last.counts && !late {
			o.w.violate("switch", o.w.now(), &id, "after %s it counts only until %d, and the levels say %t", o.name, s.bypass, last.counts)
		}
		if is := s.disabled && (s.until == 0 || s.until > o.w.trueMS(o.w.now())); is != off && !late {
			o.w.violate("switch", o.w.now(), &id, "after %s its mark is %t until %d, and the levels say %t", o.name, s.disabled, s.until, off)
		}
	}
}

// madeLateLocked reports whether an item was made by a call that had begun more than a second
// before.
func (w *world) madeLateLocked(id bucketID, s *state) bool {
	return slices.ContainsFunc(w.log, func(r *write) bool {
		return r.id == id && r.before == nil && r.after != nil && r.after.life == s.life && r.call != nil && r.at-r.call.start > time.Second
	})
}

// legalMarks: a mark changes nothing else, and is no write that counts. Nobody takes of a
// disabled item, by any reading of his clock. Only a switch marks an item, and a birth, as
// the sibling is. Only a switch removes a mark, and whoever meets one that has ended.
func (c *checker) legalMarks(r *write, bad func(string, ...any)) {
	a, b := r.before, r.after
	byOperator := r.call != nil && r.call.marks
	if !byOperator {
		c.legalBypass(r, bad)
	}
	switch {
	case byOperator && (a == nil || a.rf != b.rf || a.ttl != b.ttl || a.count != b.count || !maps.Equal(a.levels, b.levels)):
		bad("a mark changes something else")
	case a == nil && r.other == nil && b.disabled:
		bad("made as disabled")
	case a == nil || r.other != nil:
	case a.isDisabledAt(c.latestMS(r)) && r.debits() && r.call.onlyTakes():
		bad("a take of a disabled item")
	case b.disabled && (!a.disabled || a.until != b.until) && !byOperator:
		bad("was disabled by no switch")
	case a.isDisabledAt(c.latestMS(r)) && !b.disabled && !byOperator:
		bad("was enabled by no switch")
	}
}

// isDisabledAt reports whether an item has a mark that has not ended.
func (s *state) isDisabledAt(at int64) bool { return s.disabled && (s.until == 0 || s.until > at) }

// blindToMarks has every write of a client land on disabled items, too.
func blindToMarks(request any) {
	in, ok := request.(*dynamodb.UpdateItemInput)
	if !ok || in.ConditionExpression == nil {
		return
	}
	const absent = "attribute_not_exists(#dis)"
	in.ConditionExpression = aws.String(strings.ReplaceAll(*in.ConditionExpression, absent, "("+absent+" OR attribute_exists(#dis))"))
}

// TestLongestBrokenCommandsAreSeen: the laws of what operators do besides changing limits fail
// when their subject is broken.
func TestLongestBrokenCommandsAreSeen(t *testing.T) {
	t.Parallel()
	for text, broken := range map[string]breakage{
		"a take of a disabled item": {mangle: blindToMarks},
		"was rolled back, and":      {store: func(s limiter.Store) limiter.Store { return greedy{s} }},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			const tries = 6
			for seed := uint64(1); seed <= tries; seed++ {
				if says(seasoned(t, seed, odds{}, broken), text) {
					return
				}
			}
			t.Errorf("%d seeds did not report it", tries)
		})
	}
}
