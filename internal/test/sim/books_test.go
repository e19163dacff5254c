package sim_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// A page is the usage of a resource by an entity in one window.
type page struct {
	bucketKey

	window string
	start  string
}

func (p page) String() string { return fmt.Sprintf("%s %s from %s", p.bucketKey, p.window, p.start) }

// An entry is the content of a page: millitokens by limit, and events.
type entry struct {
	tokens map[string]int64
	events int64
}

// sum is the number of events, and 0 if there is no entry.
func (e *entry) sum() int64 {
	if e == nil {
		return 0
	}
	return e.events
}

func (e *entry) String() string {
	if e == nil {
		e = &entry{}
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%d events", e.events)
	for _, name := range slices.Sorted(maps.Keys(e.tokens)) {
		if n := e.tokens[name]; n != 0 {
			fmt.Fprintf(&s, ", %d of %s", n, name)
		}
	}
	return s.String()
}

// windows cut an instant to its windows: the length of the prefix to keep, and the suffix
// to append.
var windows = map[string][2]string{
	"hourly": {"2006-01-02T15", ":00:00Z"}, "daily": {"2006-01-02", "T00:00:00Z"}, "monthly": {"2006-01", "-01T00:00:00Z"},
}

// consumed returns what the applied writes consumed: a write that took anything of a limit
// is an event. For an entity that was created again it returns the consumption since then.
func (c *checker) consumed(since map[string]time.Duration) map[page]*entry {
	pages := map[page]*entry{}
	for _, r := range c.log {
		if r.failed || r.after == nil || r.at < since[r.id.entity] {
			continue
		}
		moved, took := map[string]int64{}, int64(0)
		for name, is := range r.after.levels {
			was, _ := r.before.level(name)
			if n := is.tc - was.tc; n != 0 && name != hidden {
				moved[name] = n
				if n > 0 {
					took = 1
				}
			}
		}
		if len(moved) == 0 {
			continue
		}
		at := c.start.Add(r.at).UTC()
		for window, cut := range windows {
			key := page{r.id.whole(), window, at.Format(cut[0]) + cut[1]}
			if pages[key] == nil {
				pages[key] = &entry{tokens: map[string]int64{}}
			}
			pages[key].events += took
			for name, n := range moved {
				pages[key].tokens[name] += n
			}
		}
	}
	return pages
}

// counted returns the usage in the table, read with the checker's own code.
func (w *world) counted() map[page]*entry {
	pages := map[page]*entry{}
	in := &dynamodb.ScanInput{TableName: aws.String(tableName), ConsistentRead: aws.Bool(true)}
	for {
		out, err := w.db.Scan(context.Background(), in)
		must(err)
		for _, it := range out.Items {
			ns, path, _ := strings.Cut(text(it["PK"]), "/")
			rest, isUsage := strings.CutPrefix(text(it["SK"]), "#USAGE#")
			if ns != w.ns || !isUsage {
				continue
			}
			parts := strings.Split(rest, "#")
			entity, _ := strings.CutPrefix(path, "ENTITY#")
			e := &entry{tokens: map[string]int64{}}
			for attr, v := range it {
				n := number(v)
				name, isRest := strings.CutSuffix(attr, "#milli")
				switch {
				case n == noNumber || attr == "ttl":
				case attr == "total_events":
					e.events = n
				case isRest:
					e.tokens[name] += n
				default:
					e.tokens[attr] += 1000 * n
				}
			}
			pages[page{bucketKey{entity, parts[0]}, parts[1], parts[2]}] = e
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			return pages
		}
	}
}

// books are the sums of usage as text, if aggregators sum it up.
func (p *play) books() string {
	if len(p.followers) == 0 {
		return ""
	}
	pages := p.w.counted()
	var b strings.Builder
	for _, key := range slices.SortedFunc(maps.Keys(pages), orderPages) {
		fmt.Fprintf(&b, "%v: %v\n", key, pages[key])
	}
	return b.String()
}

func orderPages(a, b page) int { return compare(a.String(), b.String()) }

// balanced: once the whole stream has been processed, usage equals consumption in every
// window, whatever came twice, late, or lost its answer. If an operator deleted the entity
// with its usage, usage is at most the consumption, and at least the consumption since the
// deletion.
func (c *checker) balanced() {
	consumed, since, counted := c.consumed(nil), c.consumed(c.play.remadeBy), c.counted()
	all := maps.Clone(consumed)
	maps.Copy(all, counted)
	for _, key := range slices.SortedFunc(maps.Keys(all), orderPages) {
		want, got, id := consumed[key], counted[key], key.shard(0)
		if _, remade := c.play.remade[key.entity]; remade {
			if left := since[key]; got.sum() > want.sum() || got.sum() < left.sum() {
				c.violate("usage", c.now(), &id, "%v: counted are %v, consumed were %v, and %v since it was deleted", key, got, want, left)
			}
			continue
		}
		if want.String() != got.String() {
			c.violate("usage", c.now(), &id, "%v: counted are %v, consumed were %v", key, got, want)
		}
	}
}

// tends: an aggregator consumes nothing, and writes nothing without need.
func (c *checker) tends(r *write) {
	if r.client == nil || !r.client.follows || r.after == nil || r.other != nil {
		return
	}
	gains := r.before == nil || r.before.count != r.after.count || r.heals()
	for _, name := range names(r.before, r.after) {
		was, _ := r.before.level(name)
		is, _ := r.after.level(name)
		if name == hidden {
			gains = gains || is.tk+1000 > was.tk
			continue
		}
		gains = gains || is.tk > was.tk
		if is.tc != was.tc {
			c.violate("usage", r.at, &r.id, "an aggregator consumed %d of %s", is.tc-was.tc, name)
		}
	}
	if !gains {
		c.violate("P8", r.at, &r.id, "an aggregator wrote for nothing")
	}
}
