package sim_test

import (
	"maps"
	"slices"
	"time"
)

// A flow is the effect of one applied write on a limit.
type flow struct {
	sent, at int64 // true time in ns: the earliest decision, and the application
	admitted int64 // millitokens that an acquire took
	settled  int64 // millitokens that were debited otherwise
	returned int64 // millitokens that fitted below the capacity again
	born     bool  // a shard was born
	count    int   // number of shards
	was, is  level
	reset    bool // parameters changed, or shards merged: the stamp may have moved by 1 ms for it
	late     bool // the overflow since the stamp was not cut first
	leaps    bool // the stamp moved far ahead
	heals    bool // the stamp moved back
	// stamped is the capacity of a limit with a timetable at the stamp that the write found,
	// if that is later than any honest clock; otherwise 0.
	stamped int64
	// granted is the number of the operator's act that gives a capacity once more: adding
	// the limit again, or deleting the bucket. 0 is none.
	granted int
	given   int64 // millitokens that an operator's reset or top-up gave
	// Of a quota: the shard, and the ends of the periods that its balance was of, and is of.
	shard      int
	ended, end int64
	stamp      int64 // of the item after the write
}

// lateness is how late a take's clock may effectively be. Several processes may use a full
// bucket. If each cuts the overflow since the stamp before every take, all keep losing the
// stamp to each other. So a take under a stamp up to this old is decided as of that stamp,
// and every interval is longer by this much.
const lateness = 50 * time.Millisecond

// neverOver is promise P1, for every limit of a bucket, over all its shards.
//
// Every applied take counts, whether its caller heard of it or not, and a credit as far as
// it reached the balance. So the check is stronger than what callers can see. A take was
// decided at some instant between sending and application. A take that straddles the start
// of an interval therefore counts only for intervals that contain it whole. Debits that
// settle a lease are not admissions, since they are never refused; the tokens that they
// take only help.
//
// A limit that is removed from its items and put back gives its capacity once more for each
// time that an operator removed it and added it again. So does a bucket that an operator
// deleted. A client that removes a limit and puts it back by itself gives nothing. A
// replacement of an expired item counts as the same item.
func (c *checker) neverOver(key bucketKey) {
	id := key.shard(0)
	flows := map[string][]flow{}
	puts, first := c.putsOf(key), map[string]int{}
	for _, r := range c.whole[key] {
		acts := puts.follow(r)
		for _, name := range names(r.before, r.after) {
			was, had := r.before.share(r.id, name)
			is, has := r.after.share(r.id, name)
			if name == hidden || r.op == patches || !has {
				continue
			}
			if !had {
				was = level{tk: is.cp, tc: was.tc, params: is.params}
			}
			f := c.flowOf(r, was, is, had)
			// The whole limit applies.
			f.is, _ = r.after.level(name)
			if f.was = f.is; had {
				f.was, _ = r.before.level(name)
			}
			if f.is.isSoft() {
				f.given += f.admitted
			}
			f.reset = had && !f.is.sameParams(f.was) || r.merges()
			if had && f.was.varies != nil && r.before.rf > c.trueMS(r.at)+ceilMS(max(0, c.hi)) {
				f.stamped = f.was.of(0, 1).in(r.before.rf).cp
			}
			if act := acts[name]; first[name] == 0 && len(flows[name]) == 0 {
				first[name] = act
			} else if act != first[name] {
				f.granted = act
			}
			flows[name] = append(flows[name], f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(flows)) {
		c.onePeriod(id, name, flows[name])
		for _, rates := range hardRates(flows[name]) {
			c.intervals(id, name, rates)
		}
	}
}

func (c *checker) flowOf(r *write, was, is level, had bool) flow {
	f := flow{sent: int64(r.sent), at: int64(r.at), born: r.before == nil, count: r.after.count, leaps: c.leaps(r), heals: r.heals()}
	debit := is.tc - was.tc
	if r.countedOnly() && c.movesNothing(r, was, is) {
		debit = 0
	}
	if had && debit > 0 && r.before.rf == r.after.rf {
		f.late = was.tk+was.earned(r.before.rf, c.clientMS(r.client, r.sent)) > was.cp
	}
	if r.before == nil && r.other == nil {
		f.sent = min(f.sent, int64(r.call.start)) // a new item is stamped before its configuration is read
	}
	latest := r.after.rf
	if r.before != nil && r.before.rf == r.after.rf {
		latest = c.latestMS(r) // a take at the stamp counts what was earned since
	}
	switch {
	case debit > 0 && had && !r.call.onlyTakes() && is.least(r.after.rf, latest) < 0:
		// It carried a settlement of others: no acquire takes more than the balance.
	case debit > 0 && (r.call.kind.takes() || !had):
		f.admitted = debit
	case debit < 0 && r.before.rf == r.after.rf:
		f.returned = is.tk - was.tk
	case debit < 0:
		f.returned = is.tk - was.carried(r.before.rf, r.after.rf, is)
	}
	f.settled = max(0, debit) - f.admitted
	if had && r.isGrant() {
		f.given = max(0, is.tk-was.carried(r.before.rf, r.after.rf, is))
	}
	f.shard, f.end, f.stamp = r.id.number(), is.end(r.after.rf), r.after.rf
	if had && r.before != nil {
		f.ended = was.end(r.before.rf)
	}
	return f
}

// intervals checks all intervals, each from the decision of one take to the
// application of another:
//
//	admitted − returned ≤ capacity + rate·(T + s) + what operators gave
//
// capacity and rate are the largest in force meanwhile. Of a limit that nobody edits,
// capacity is the one in force when the interval begins, and the rate is integrated. But a
// balance is of the piece of its stamp: while a stamp is far ahead, its capacity holds, and
// the client with that clock earns by the rate there. s is the largest difference between any
// two clocks of the run, plus the millisecond to which clocks are cut, plus [lateness] if one
// of the takes used an old stamp. The grid may round up by less than a millitoken once per
// change of parameters, on each shard, and for each shard that is born. Each stamp that a
// clock moved far ahead may cost one capacity. Each act of an operator that grants a capacity
// anew adds one.
func (c *checker) intervals(id bucketID, name string, flows []flow) {
	skew := c.spread() + time.Millisecond
	for _, first := range flows {
		if first.admitted == 0 {
			continue
		}
		from := first.sent
		var net, given, changes, grids, late, leaps int64
		acts := map[int]bool{}
		var forms forms
		var stamped, shift int64
		met := map[int]bool{}
		for _, f := range flows {
			if f.at < from {
				continue
			}
			forms = forms.with(f.was).with(f.is)
			if f.stamped != 0 || f.leaps {
				shift = farAhead.Milliseconds()
			}
			if !met[f.shard] {
				if met[f.shard], stamped = true, max(stamped, f.stamped); f.stamped != 0 {
					leaps++ // who takes at such a stamp cuts nothing that its client has earned since
				}
			}
			grids = max(grids, int64(f.count))
			if f.born {
				grids += 2
			}
			if f.reset {
				changes++
			}
			if f.leaps {
				leaps++
			}
			if f.granted != 0 {
				acts[f.granted] = true
			}
			if f.sent >= from {
				net += f.admitted
			}
			if f.late {
				late = int64(lateness)
			}
			net -= f.returned
			given += f.given
			if f.admitted == 0 || f.sent < from {
				continue
			}
			span := f.at - from + int64(skew) + late + changes*int64(time.Millisecond)
			i := interval{
				from:  c.trueMS(time.Duration(from-late) + min(0, c.lo) - time.Millisecond),
				lasts: ceilMS(time.Duration(span)), slack: ceilMS(skew + time.Duration(late+first.at-from)),
				stamped: stamped, shift: shift, more: leaps + int64(len(acts)), grids: grids + changes,
			}
			if capacity, earned, pieces, fits := forms.fit(net-given, i); !fits {
				c.violate("P1", time.Duration(f.at), &id, "%s admitted %d in %v to %v (%v), allowed is %d + %d in %d pieces, with %v of clocks, and %d given",
					name, net, time.Duration(from), time.Duration(f.at), time.Duration(f.at-from), capacity, earned, pieces, skew+time.Duration(late), given)
				return
			}
		}
	}
}

// forms are the forms that a limit has in an interval, each a whole limit.
type forms []level

func (fs forms) with(l level) forms {
	if slices.ContainsFunc(fs, l.sameParams) {
		return fs
	}
	l.shard, l.among, l.base = 0, 1, l.params
	return append(fs, l)
}

// An interval is one in which admissions are bounded, in milliseconds. It begins within the
// slack after from.
type interval struct {
	from, lasts, slack int64
	// stamped is the largest capacity at a stamp that was far ahead when the interval began.
	// shift is how far ahead clocks were that moved stamps; 0 if none did.
	stamped, shift int64
	more, grids    int64 // how often a capacity is given once more, and a millitoken for each piece
}

// fit reports whether an amount may be admitted in an interval.
func (fs forms) fit(net int64, i interval) (capacity, earned, pieces int64, fits bool) {
	if len(fs) == 1 && fs[0].varies != nil {
		l, entry := fs[0].params, fs[0].varies.entry(fs[0].params)
		if net <= min(l.cp, entry.cp)+min(l.ra/l.rp, entry.ra/entry.rp)*i.lasts {
			return 0, 0, 0, true // as most: far fewer than in any piece
		}
		capacity, earned, pieces = fs[0].span(i)
		return capacity, earned, pieces, net <= capacity+i.more*fs[0].most()+earned+(i.grids+1)*pieces
	}
	rate := params{rp: 1}
	for _, l := range fs {
		all := []params{l.params}
		if l.varies != nil {
			all = append(all, l.varies.entry(l.params))
			pieces = max(pieces, i.lasts/(minute/2)+2)
		}
		for _, p := range all {
			capacity = max(capacity, p.cp)
			if p.ra*rate.rp > rate.ra*p.rp {
				rate = p
			}
		}
	}
	// In millitokens times the period, where nothing is rounded.
	allowed := (capacity*(1+i.more)+i.grids*max(1, pieces))*rate.rp + i.lasts*rate.ra
	return capacity, i.lasts * rate.ra / rate.rp, pieces, net*rate.rp <= allowed
}
