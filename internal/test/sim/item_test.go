package sim_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
)

type item = map[string]types.AttributeValue

// A bucketID names a bucket item: one shard of a bucket.
type bucketID struct {
	entity, resource, shard string
}

func (b bucketID) String() string { return b.entity + "/" + b.resource + "/" + b.shard }

// whole is the item's bucket.
func (b bucketID) whole() bucketKey { return bucketKey{b.entity, b.resource} }

// number is the shard's number.
func (b bucketID) number() int {
	n, err := strconv.Atoi(b.shard)
	must(err)
	return n
}

// A bucketKey names a bucket with all its shards.
type bucketKey struct{ entity, resource string }

func (b bucketKey) String() string { return b.entity + "/" + b.resource }

func (b bucketKey) shard(i int) bucketID {
	return bucketID{b.entity, b.resource, strconv.Itoa(i)}
}

// all are the possible items of the bucket.
func (b bucketKey) all() []bucketID {
	ids := make([]bucketID, mostShards)
	for i := range ids {
		ids[i] = b.shard(i)
	}
	return ids
}

// mostShards is the maximum number of shards.
const mostShards = 32

// bucketOf returns the bucket of a primary key; false if it is not a bucket's key.
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
	tk, tc int64       // millitokens held, and consumed less returned
	params             // of a limit that varies, those in force at the stamp
	renews *recurrence // of a quota
	// carry is what a quota takes into the next period, in whole limits: see [level.turned].
	carry carry
	// granted is among how many shards a quota was divided when it was last renewed; 0 is among as
	// many as there are. topped is what it may hold more in this period. full is what a shard holds
	// from the next edge on. resets counts what operators did.
	granted, topped, full, resets int64
	soft                          int64  // the stamp of a soft limit, or of one in a mode; 0 of a hard one
	mode                          string // "shadow", "off", or "" of a limit that is enforced
	noted                         int64  // what it would have refused in shadow
	opened                        int64  // when the session began that the balance is of; 0 if it is no session
	varies                        *timetable
	// inStep says that the balance of a quota with a timetable has followed all changes of its period.
	inStep bool
	// Of a part of a limit: its number, among how many, and the parameters of the whole outside of
	// entries.
	shard, among int
	base         params
	// life counts the times the limit was put on the item: 1 is the first.
	life int
}

// params are what a limit holds, and what it earns in a period of milliseconds.
type params struct{ cp, ra, rp int64 }

func (l level) sameParams(o level) bool {
	if l.varies != nil && l.among > 0 {
		l.params = l.base
	}
	if o.varies != nil && o.among > 0 {
		o.params = o.base
	}
	return l.params == o.params && l.renews == o.renews && l.varies == o.varies && l.carry == o.carry
}

// levelOf is a limit as an item is to have it, without a balance. If it is soft, its stamp is
// a sign only.
func levelOf(l limiter.Limit) (as level) {
	if l.Renews != nil {
		as = level{params: params{l.Capacity * 1000, 0, 1000}, renews: recurrenceBy(l.Renews), carry: carry{l.Carries.Rollover * 1000, l.Carries.Debt}, varies: timetableBy(l.Varies)}
	} else {
		as = level{params: params{l.Capacity * 1000, l.Amount * 1000, l.Period.Milliseconds()}, varies: timetableBy(l.Varies)}
	}
	if l.Soft {
		as.soft = 1
	}
	if l.Mode != limiter.Enforce {
		as.soft, as.mode = 1, l.Mode.String()
	}
	return as
}

// isSoft reports whether a limit is soft or in a mode, even if its stamp has passed.
func (l level) isSoft() bool { return l.soft != 0 }

// isAs reports whether a limit is soft, and in a mode, as another one is.
func (l level) isAs(o level) bool { return l.isSoft() == o.isSoft() && l.mode == o.mode }

// of is shard number's part of a limit divided among n shards. It has every n-th millitoken
// of the capacity, counted from its own number; a longer period divides the rate.
func (l level) of(shard, n int) level {
	l.shard, l.among, l.base = shard, n, l.params
	return l.divided()
}

// divided is the part of a whole limit.
func (l level) divided() level {
	part := func(whole, n int64) int64 { return (whole - int64(l.shard) + n - 1) / n }
	l.full = part(l.cp, int64(l.among))
	if l.renews != nil && l.granted != 0 {
		l.cp = part(l.cp, l.granted)
	} else {
		l.cp = l.full
	}
	if l.renews != nil {
		l.cp += l.topped
	}
	l.carry.most = part(l.carry.most, int64(l.among))
	l.rp *= int64(l.among)
	return l
}

// A state is a bucket item, read with the checker's own code.
type state struct {
	rf, ttl  int64 // ttl is 0 if the item never expires
	vu       int64 // until when the parameters are valid; 0 if the item does not say
	count    int   // the item's number of shards
	levels   map[string]level
	gone     map[string]int64 // what limits have consumed that were removed
	half     []string         // limits with an attribute that is missing or no number
	life     int              // numbers the items under this key: 1 is the first
	open     int64            // the open hour of its diary; 0 if it has none
	created  int64            // when the item was made
	disabled bool             // an operator disabled the item
	until    int64            // when that ends by itself; 0 is never
	bypass   int64            // until when it counts only; 0 if it enforces
	payer    string           // the parent that pays, too; "" if none does
}

// readState reads an item; nil means no item.
func readState(it item) *state {
	if it == nil {
		return nil
	}
	s := &state{rf: number(it["rf"]), count: 1, levels: map[string]level{}, gone: map[string]int64{}}
	if it["shard_count"] != nil {
		s.count = int(number(it["shard_count"]))
	}
	if it["dh"] != nil {
		s.open = number(it["dh"])
	}
	if it["created"] != nil {
		s.created = number(it["created"])
	}
	if it["ttl"] != nil {
		s.ttl = number(it["ttl"])
	}
	if it["vu"] != nil {
		s.vu = number(it["vu"])
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
	if cascades, _ := it["cascade"].(*types.AttributeValueMemberBOOL); cascades != nil && cascades.Value {
		s.payer = text(it["parent_id"])
	}
	s.disabled = it["disabled"] != nil
	if it["bypass"] != nil {
		s.bypass = number(it["bypass"])
	}
	if it["disabled_until"] != nil {
		s.until = number(it["disabled_until"])
	}
	for name, f := range fields {
		if _, had := f["tk"]; !had {
			s.gone[name] = f["tc"] // a peer may have synced the parameters of a limit that the item lacks
			continue
		}
		for _, want := range []string{"tk", "tc", "cp", "ra", "rp"} {
			if v, ok := f[want]; !ok || v == noNumber {
				s.half = append(s.half, name+"."+want)
			}
		}
		l := level{tk: f["tk"], tc: f["tc"], soft: f["soft"], mode: text(it["b_"+name+"_mode"]), noted: f["wr"], params: params{f["cp"], f["ra"], f["rp"]}}
		if l.mode != "" && l.soft == 0 || l.mode != "shadow" && l.noted != 0 {
			s.half = append(s.half, name+".mode")
		}
		if code := text(it["b_"+name+"_sched"]); code != "" {
			if l.varies = timetableOf(code, text(it["sched_tz"])); l.varies == nil {
				s.half = append(s.half, name+".sched")
			}
		}
		if code := text(it["b_"+name+"_rsched"]); code != "" {
			if l.renews = recurrenceOf(code, text(it["sched_tz"])); l.renews == nil || l.ra != 0 {
				s.half = append(s.half, name+".rsched")
			}
			l.granted, l.topped, l.resets = f["gc"], f["tu"], f["rn"]
			l.carry = carryOf(text(it["b_"+name+"_co"]))
		}
		if seconds := f["rsa"]; seconds != 0 {
			l.renews, l.opened = sessionOf(seconds), f["wa"]
			if l.topped, l.resets = f["tu"], f["rn"]; l.opened <= 0 || f["ws"] != l.opened || l.ra != 0 {
				s.half = append(s.half, name+".wa")
			}
		}
		l.inStep = l.renews != nil && l.varies != nil && it["st"] != nil && number(it["st"]) == s.rf
		s.levels[name] = l
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

// share is a shard's part of a limit.
func (s *state) share(id bucketID, name string) (level, bool) {
	l, ok := s.level(name)
	if !ok || name == hidden {
		return l, ok
	}
	return l.of(id.number(), s.count).in(s.rf), true
}

// same reports whether two states are equal.
func (s *state) same(o *state) bool {
	return s == nil && o == nil || s != nil && o != nil &&
		s.rf == o.rf && s.ttl == o.ttl && s.vu == o.vu && s.count == o.count && s.disabled == o.disabled && s.until == o.until && s.bypass == o.bypass && maps.Equal(s.levels, o.levels)
}

// names are the limits of both states, including the hidden one, in order.
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

// String is the state in a trace.
func (s *state) String() string {
	if s == nil {
		return "none"
	}
	return strings.TrimSpace(change(nil, s))
}

// change is the change of an item in a trace.
func change(a, b *state) string {
	var s strings.Builder
	switch {
	case a == nil:
		fmt.Fprintf(&s, " item %d rf=%d", b.life, b.rf)
	case a.rf != b.rf:
		fmt.Fprintf(&s, " rf=%d(+%d)", b.rf, b.rf-a.rf)
	}
	if b.count != 1 && a == nil || a != nil && a.count != b.count {
		fmt.Fprintf(&s, " of %d shards", b.count)
	}
	if b.disabled && (a == nil || !a.disabled || a.until != b.until) {
		fmt.Fprintf(&s, " disabled until %d", b.until)
	}
	if !b.disabled && a != nil && a.disabled {
		s.WriteString(" enabled")
	}
	if was := a.bypassed(); b.bypass != was {
		fmt.Fprintf(&s, " bypassed until %d", b.bypass)
	}
	if b.ttl != 0 && (a == nil || a.ttl != b.ttl) {
		fmt.Fprintf(&s, " ttl=%d", b.ttl)
	}
	for _, name := range names(a, b) {
		was, had := a.level(name)
		is, has := b.level(name)
		switch {
		case name == hidden && is.tk < 1000:
			fmt.Fprintf(&s, " %s:%d", name, is.tk)
		case name == hidden, was == is:
		case !has:
			fmt.Fprintf(&s, " %s gone", name)
		case had && was.sameParams(is) && was.soft == is.soft:
			fmt.Fprintf(&s, " %s:%d->%d(tc%+d)", name, was.tk, is.tk, is.tc-was.tc)
		case had:
			fmt.Fprintf(&s, " %s:%d->%d(tc%+d) now /%d+%d/%dms", name, was.tk, is.tk, is.tc-was.tc, is.cp, is.ra, is.rp)
		default:
			fmt.Fprintf(&s, " %s:%d(tc=%d)/%d+%d/%dms", name, is.tk, is.tc, is.cp, is.ra, is.rp)
		}
		if is.opened != was.opened {
			fmt.Fprintf(&s, " session of %d", is.opened)
		}
		if is.topped != was.topped {
			fmt.Fprintf(&s, " topped %d", is.topped)
		}
		if is.soft != was.soft {
			fmt.Fprintf(&s, " soft until %d", is.soft)
		}
		if is.mode != was.mode || is.noted != was.noted {
			fmt.Fprintf(&s, " in %q, would have refused %d", is.mode, is.noted)
		}
	}
	return s.String()
}
