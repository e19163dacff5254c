package sim_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/store"
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
// is an event. It belongs to the hour that is open after the write: the writer's own, or a
// later one if its clock is behind.
func (c *checker) consumed() map[page]*entry {
	pages := map[page]*entry{}
	for _, r := range c.log {
		if r.failed || r.after == nil || r.after.hour == 0 || c.isDeleted(r.id.entity, r.after.created) {
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
		if len(moved) > 0 {
			note(pages, r.id.whole(), r.after.hour, took, moved)
		}
	}
	return pages
}

// noteDeletion notes when the deletion of an entity began, as the table has it.
func (w *world) noteDeletion(entity string) {
	out, err := w.db.GetItem(context.Background(), &dynamodb.GetItemInput{
		TableName: aws.String(tableName), Key: item{"PK": &types.AttributeValueMemberS{Value: w.ns + "/USAGE##" + entity}, "SK": &types.AttributeValueMemberS{Value: "deleted"}},
	})
	must(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deleted == nil {
		w.deleted = map[string]int64{}
	}
	w.deleted[entity] = number(out.Item["deleted_at"])
}

// isDeleted reports whether a life of a bucket was deleted with its entity: its usage is gone.
func (w *world) isDeleted(entity string, created int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, is := w.deleted[entity]
	return is && created <= at
}

// note adds what a bucket consumed in an hour to its pages.
func note(pages map[page]*entry, of bucketKey, hour, events int64, tokens map[string]int64) {
	at := time.Unix(3600*hour, 0).UTC()
	for window, cut := range windows {
		key := page{of, window, at.Format(cut[0]) + cut[1]}
		if pages[key] == nil {
			pages[key] = &entry{tokens: map[string]int64{}}
		}
		pages[key].events += events
		for name, n := range tokens {
			pages[key].tokens[name] += n
		}
	}
}

// An hourOf is an hour of one item.
type hourOf struct {
	bucketKey

	shard, life string
	hour        int64
}

// counted returns the usage in the table, read with the checker's own code but for the
// texts of diaries: what buckets keep of their hours, and pages.
func (w *world) counted() map[page]*entry {
	hours := map[hourOf][]store.Amount{}
	in := &dynamodb.ScanInput{TableName: aws.String(tableName), ConsistentRead: aws.Bool(true)}
	for {
		out, err := w.db.Scan(context.Background(), in)
		must(err)
		for _, it := range out.Items {
			ns, path, _ := strings.Cut(text(it["PK"]), "/")
			parts := strings.Split(path, "#")
			switch sk := strings.Split(text(it["SK"]), "#"); {
			case ns != w.ns:
			case parts[0] == "BUCKET" && text(it["SK"]) == "#STATE" && it["dh"] != nil:
				life := "0"
				if it["created"] != nil {
					life = strconv.FormatInt(number(it["created"]), 10)
				}
				if made, _ := strconv.ParseInt(life, 10, 64); w.isDeleted(parts[1], made) {
					continue // a client whose clock is behind made it afterwards
				}
				ownHours(hours, hourOf{bucketKey{parts[1], parts[2]}, parts[3], life, 0}, it)
			case parts[0] == "USAGE" && len(sk) == 5:
				textHours(hours, hourOf{bucketKey{sk[1], parts[1]}, sk[3], sk[4], 0}, it)
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			break
		}
	}
	pages := map[page]*entry{}
	for of, amounts := range hours {
		events, tokens := int64(0), map[string]int64{}
		for _, a := range amounts {
			if a.Limit == "" {
				events = a.Milli
			} else {
				tokens[a.Limit] = a.Milli
			}
		}
		note(pages, of.bucketKey, of.hour, events, tokens)
	}
	return pages
}

// textHours reads the hours in the text of an item.
func textHours(hours map[hourOf][]store.Amount, of hourOf, it item) {
	entries, err := diary.Parse(text(it["dt"]))
	must(err)
	for _, e := range entries {
		of.hour = int64(e.Hour)
		hours[of] = e.Amounts
	}
}

// ownHours reads the hours of a bucket item.
func ownHours(hours map[hourOf][]store.Amount, of hourOf, it item) {
	textHours(hours, of, it)
	zero := func(attr string) int64 {
		if it[attr] == nil {
			return 0
		}
		return number(it[attr])
	}
	add := func(hour int64, limit string, n int64) {
		of.hour = hour
		if n != 0 {
			hours[of] = append(hours[of], store.Amount{Limit: limit, Milli: n})
		}
	}
	for attr := range it {
		name, isLimit := strings.CutPrefix(attr, "b_")
		name, isCount := strings.CutSuffix(name, "_tc")
		gained, isGained := strings.CutPrefix(attr, "dp_")
		switch {
		case attr == "dn":
			add(zero("dh"), "", zero(attr)-zero("do_"))
		case isLimit && isCount && name != hidden:
			add(zero("dh"), name, zero(attr)-zero("do_"+name))
		case isGained && it["dc"] != nil:
			add(zero("dc"), gained, zero(attr))
		}
	}
}

// books are the usage as text, if aggregators follow.
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
// window, whatever came twice, late, or lost its answer, and whoever deleted a bucket.
func (c *checker) balanced() {
	consumed, counted := c.consumed(), c.counted()
	all := maps.Clone(consumed)
	maps.Copy(all, counted)
	for _, key := range slices.SortedFunc(maps.Keys(all), orderPages) {
		want, got, id := consumed[key], counted[key], key.shard(0)
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
