package sim_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/diary"
)

// An hour is an hour of the life of a bucket item.
type hour struct {
	id   bucketID
	life int64 // when the item was made
	hour int64
}

func (h hour) String() string { return fmt.Sprintf("hour %d of %s, made at %d", h.hour, h.id, h.life) }

// An entry is what was consumed in an hour: millitokens by limit, and events. A write that took
// anything of a limit is an event.
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

// add adds what a write consumed.
func (e *entry) add(r *write) {
	took := int64(0)
	for name, is := range r.after.levels {
		was, _ := r.before.level(name)
		n := is.tc - was.tc
		if name == hidden || n == 0 {
			continue
		}
		e.tokens[name] += n
		if n > 0 {
			took = 1
		}
	}
	e.events += took
}

// diarized: diaries and pages have, for each hour, what the writes consumed that landed while
// that hour was open, whatever came to an aggregator twice, late, or lost its answer. An hour is
// kept wholly or not at all. It may be missing after a deletion by an operator. Without an
// aggregator it may be missing after the end of its item, too.
func (c *checker) diarized() {
	want, missing := map[hour]*entry{}, map[hour]bool{}
	for _, r := range c.log {
		switch {
		case r.failed:
		case r.after == nil && r.before != nil:
			isDeleted := r.client != nil && !r.retires()
			for at := range want {
				if isDeleted && at.id.entity == r.id.entity || len(c.play.followers) == 0 && at.id == r.id {
					missing[at] = true
				}
			}
		case r.after != nil && r.after.open != 0:
			at := hour{r.id, r.after.created, r.after.open}
			if want[at] == nil {
				want[at] = &entry{tokens: map[string]int64{}}
			}
			want[at].add(r)
		}
	}
	got := c.diaries()
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, at := range slices.SortedFunc(maps.Keys(all), orderHours) {
		w, g := want[at].String(), got[at].String()
		if w != g && (!missing[at] || got[at] != nil) {
			c.violate("diary", c.now(), &at.id, "%v: kept are %v, consumed were %v", at, g, w)
		}
	}
}

func orderHours(a, b hour) int { return strings.Compare(a.String(), b.String()) }

// books are the diaries and pages as text, if aggregators follow.
func (p *play) books() string {
	if len(p.followers) == 0 {
		return ""
	}
	hours := p.w.diaries()
	var b strings.Builder
	for _, at := range slices.SortedFunc(maps.Keys(hours), orderHours) {
		fmt.Fprintf(&b, "%v: %v\n", at, hours[at])
	}
	return b.String()
}

// diaries reads all pages and all items of the table with the checker's own code.
func (w *world) diaries() map[hour]*entry {
	found := map[hour]*entry{}
	in := &dynamodb.ScanInput{TableName: aws.String(tableName), ConsistentRead: aws.Bool(true)}
	for {
		out, err := w.db.Scan(context.Background(), in)
		must(err)
		for _, it := range out.Items {
			ns, path, _ := strings.Cut(text(it["PK"]), "/")
			rest, isPage := strings.CutPrefix(path, "USAGE#")
			id, isBucket := bucketOf(it)
			switch {
			case ns != w.ns:
			case isPage && it["dt"] != nil:
				resource, _, _ := strings.Cut(rest, "#")
				parts := strings.Split(text(it["SK"]), "#")
				made, err := strconv.ParseInt(parts[4], 10, 64)
				must(err)
				enter(found, bucketID{parts[1], resource, parts[3]}, made, text(it["dt"]))
			case isBucket && it["dh"] != nil:
				made := max(0, number(it["created"]))
				enter(found, id, made, text(it["dt"]))
				closed, open := map[string]int64{}, map[string]int64{}
				for attr, v := range it {
					if limit, ok := strings.CutPrefix(attr, "dp_"); ok {
						closed[limit] += number(v)
					}
					if limit, ok := strings.CutPrefix(attr, "do_"); ok {
						open[limit] -= number(v)
					}
					if limit, ok := strings.CutPrefix(strings.TrimSuffix(attr, "_tc"), "b_"); ok && strings.HasSuffix(attr, "_tc") && limit != hidden {
						open[limit] += number(v)
					}
				}
				if it["dn"] != nil {
					open[""] += number(it["dn"])
				}
				if it["dc"] != nil {
					noteHour(found, hour{id, made, number(it["dc"])}, closed)
				}
				noteHour(found, hour{id, made, number(it["dh"])}, open)
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			return found
		}
	}
}

// enter notes the hours of a text. An hour that is noted already must be the same.
func enter(found map[hour]*entry, id bucketID, made int64, text string) {
	entries, err := diary.Parse(text)
	must(err)
	for _, e := range entries {
		amounts := map[string]int64{}
		for _, a := range e.Amounts {
			amounts[a.Limit] = a.Milli
		}
		noteHour(found, hour{id, made, int64(e.Hour)}, amounts)
	}
}

func noteHour(found map[hour]*entry, at hour, amounts map[string]int64) {
	e := &entry{tokens: map[string]int64{}, events: amounts[""]}
	for limit, n := range amounts {
		if limit != "" && n != 0 {
			e.tokens[limit] = n
		}
	}
	if was := found[at]; was != nil && was.String() != e.String() {
		e.events = -1 // the same hour with two contents is wrong in any case
	}
	found[at] = e
}
