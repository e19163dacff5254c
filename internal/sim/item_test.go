package sim_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type item = map[string]types.AttributeValue

// A bucketID names a bucket item.
type bucketID struct {
	entity, resource, shard string
}

func (b bucketID) String() string { return b.entity + "/" + b.resource + "/" + b.shard }

// bucketOf is the bucket that a primary key names; false if it names none.
func bucketOf(key item) (bucketID, bool) {
	if text(key["SK"]) != "#STATE" {
		return bucketID{}, false
	}
	_, path, _ := strings.Cut(text(key["PK"]), "/")
	parts := strings.Split(path, "#")
	if len(parts) != 4 || parts[0] != "BUCKET" {
		return bucketID{}, false
	}
	return bucketID{parts[1], parts[2], parts[3]}, true
}

func text(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// hidden is the limit on writes that every item carries.
const hidden = "wcu"

// A level is one limit on a bucket item, as stored.
type level struct {
	tk, tc     int64 // millitokens held, and consumed less returned
	cp, ra, rp int64
	// life counts the times the limit was put on the item: 1 is the first.
	life int
}

func (l level) sameParams(o level) bool { return l.cp == o.cp && l.ra == o.ra && l.rp == o.rp }

// A state is a bucket item, read by the checker's own eyes.
type state struct {
	rf, ttl int64 // ttl is 0 if the item never expires
	levels  map[string]level
	half    []string // limits of which some attribute is missing or no number
	life    int      // counts the items that had this key: 1 is the first
}

// readState reads an item; nil is no item.
func readState(it item) *state {
	if it == nil {
		return nil
	}
	s := &state{rf: number(it["rf"]), levels: map[string]level{}}
	if it["ttl"] != nil {
		s.ttl = number(it["ttl"])
	}
	fields := map[string]map[string]int64{}
	for attr, v := range it {
		rest, ok := strings.CutPrefix(attr, "b_")
		if !ok {
			continue
		}
		cut := strings.LastIndexByte(rest, '_')
		name := rest[:cut]
		if fields[name] == nil {
			fields[name] = map[string]int64{}
		}
		fields[name][rest[cut+1:]] = number(v)
	}
	for name, f := range fields {
		for _, want := range []string{"tk", "tc", "cp", "ra", "rp"} {
			if v, ok := f[want]; !ok || v == noNumber {
				s.half = append(s.half, name+"."+want)
			}
		}
		s.levels[name] = level{tk: f["tk"], tc: f["tc"], cp: f["cp"], ra: f["ra"], rp: f["rp"]}
	}
	if s.rf == noNumber {
		s.half = append(s.half, "rf")
	}
	slices.Sort(s.half)
	return s
}

const noNumber = -1 << 62

func number(v types.AttributeValue) int64 {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return noNumber
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil {
		return noNumber
	}
	return i
}

// names are the limits of both states, the hidden one included, in order.
func names(a, b *state) []string {
	all := map[string]bool{}
	for _, s := range []*state{a, b} {
		if s != nil {
			for name := range s.levels {
				all[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// String is the state as a trace shows it.
func (s *state) String() string {
	if s == nil {
		return "none"
	}
	return strings.TrimSpace(change(nil, s))
}

// change is what became of an item, as a trace shows it.
func change(a, b *state) string {
	var s strings.Builder
	switch {
	case a == nil:
		fmt.Fprintf(&s, " item %d rf=%d", b.life, b.rf)
	case a.rf != b.rf:
		fmt.Fprintf(&s, " rf=%d(+%d)", b.rf, b.rf-a.rf)
	}
	if b.ttl != 0 && (a == nil || a.ttl != b.ttl) {
		fmt.Fprintf(&s, " ttl=%d", b.ttl)
	}
	for _, name := range names(a, b) {
		was, had := a.level(name)
		is, has := b.level(name)
		switch {
		case name == hidden, was == is:
		case !has:
			fmt.Fprintf(&s, " %s gone", name)
		case had && was.sameParams(is):
			fmt.Fprintf(&s, " %s:%d->%d(tc%+d)", name, was.tk, is.tk, is.tc-was.tc)
		case had:
			fmt.Fprintf(&s, " %s:%d->%d(tc%+d) now /%d+%d/%dms", name, was.tk, is.tk, is.tc-was.tc, is.cp, is.ra, is.rp)
		default:
			fmt.Fprintf(&s, " %s:%d(tc=%d)/%d+%d/%dms", name, is.tk, is.tc, is.cp, is.ra, is.rp)
		}
	}
	return s.String()
}
