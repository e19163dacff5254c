package sim_test

import (
	"context"
	"fmt"
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

// diarized: the diaries of all items and their pages have, for each hour, what the writes consumed
// that landed while that hour was open. Of a life that has ended, nothing more may be kept
// than was consumed.
func (c *checker) diarized() {
	want, ended := map[hour]*entry{}, map[hour]bool{}
	for _, r := range c.log {
		switch {
		case r.failed:
		case r.after == nil:
			if r.before != nil {
				ended[hour{id: r.id, life: r.before.created}] = true
			}
		case r.after.open != 0:
			at := hour{r.id, r.after.created, r.after.open}
			if want[at] == nil {
				want[at] = &entry{tokens: map[string]int64{}}
			}
			took := int64(0)
			for name, is := range r.after.levels {
				was, _ := r.before.level(name)
				n := is.tc - was.tc
				if name == hidden || n == 0 {
					continue
				}
				want[at].tokens[name] += n
				if n > 0 {
					took = 1
				}
			}
			want[at].events += took
		}
	}
	got := c.diaries()
	var all []hour
	for at := range want {
		all = append(all, at)
	}
	for at := range got {
		if want[at] == nil {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b hour) int { return strings.Compare(a.String(), b.String()) })
	for _, at := range all {
		if ended[hour{id: at.id, life: at.life}] {
			continue
		}
		if w, g := want[at].String(), got[at].String(); w != g {
			c.violate("diary", c.now(), &at.id, "%v: kept are %v, consumed were %v", at, g, w)
		}
	}
}

// diaries reads all pages and all items of the table with the checker's own code.
func (c *checker) diaries() map[hour]*entry {
	found := map[hour]*entry{}
	in := &dynamodb.ScanInput{TableName: aws.String(tableName), ConsistentRead: aws.Bool(true)}
	for {
		out, err := c.db.Scan(context.Background(), in)
		must(err)
		for _, it := range out.Items {
			ns, path, _ := strings.Cut(text(it["PK"]), "/")
			rest, isPage := strings.CutPrefix(path, "USAGE#")
			id, isBucket := bucketOf(it)
			switch {
			case ns != c.ns:
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
