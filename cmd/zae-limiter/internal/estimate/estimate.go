package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/store"
)

// An Estimate is what a load costs a second, and where. Units are DynamoDB's write and
// read units.
type Estimate struct {
	Load  Load   `json:"-"`
	Parts []Part `json:"parts"` // load by cause
	Sum   Part   `json:"sum"`   // the sum of all parts
	// Shards are the shards that the busiest bucket needs.
	Shards      int     `json:"hottest_bucket_shards"`
	Records     float64 `json:"stream_records_per_second"` // records of buckets in the stream per second
	Invocations float64 `json:"function_calls_per_second"` // calls of the aggregator's function per second, which few records reach
	// StoredBytes are the items of buckets and usage.
	StoredBytes float64 `json:"stored_bytes"`
}

// A Part is a cause of costs.
type Part struct {
	Name     string  `json:"name"` // the cause
	Requests float64 `json:"requests_per_second"`
	Writes   float64 `json:"write_units_per_second"` // write capacity units per second
	Reads    float64 `json:"read_units_per_second"`  // read capacity units per second

	applied float64 // writes to bucket items a second that changed something
}

// Names of the parts.
const (
	PartAdmitted   = "admitted requests"
	PartContention = "retries among processes" // and looks before a write
	PartRefused    = "refused requests"
	PartParents    = "parents"
	PartAdjusted   = "adjustments"
	PartConfig     = "comparisons with the configuration"
	PartNew        = "new buckets"
	PartUsage      = "usage"
	PartCalls      = "other calls"
	PartDoubled    = "doublings"
	PartSetUp      = "namespace, entities and limits"
	PartPrimed     = "making the buckets"
)

// New estimates a load. It fails with a [store.ValidationError] that names the field that
// is out of bounds.
func New(l Load) (*Estimate, error) {
	l.fill()
	if err := l.validate(); err != nil {
		return nil, err
	}
	s := l.split()
	if err := l.meet(s); err != nil {
		return nil, err
	}
	e := &Estimate{Load: l}
	e.add(l.admitted(s))
	e.add(l.contention(s))
	e.add(l.refusals(s))
	e.add(l.parents(s))
	e.add(l.adjustments())
	e.add(l.comparisons(s))
	e.add(l.births())
	for _, p := range e.Parts {
		e.Records += p.applied
	}
	usage := l.usage(s)
	e.add(usage)
	e.Invocations = e.calls(s)
	e.Shards = l.shards()
	e.StoredBytes = l.stored(usage.Writes)
	return e, nil
}

// add adds a part that costs anything.
func (e *Estimate) add(p Part) {
	if p.Requests == 0 && p.Writes == 0 && p.Reads == 0 {
		return
	}
	e.Parts = append(e.Parts, p)
	e.Sum.Name = "sum"
	e.Sum.Requests += p.Requests
	e.Sum.Writes += p.Writes
	e.Sum.Reads += p.Reads
}

// A split divides the requests by the bucket that they meet.
type split struct {
	admitted float64 // requests a second
	hot      float64 // requests a second to the busiest bucket
	each     float64 // requests a second to each other bucket
	others   float64 // buckets besides the busiest and the limited ones
	limited  float64 // buckets that refuse requests
	asked    float64 // requests a second to each limited bucket
	parent   float64 // requests a second to each parent
}

func (l *Load) split() split {
	s := split{admitted: l.Rate * (1 - l.Refused), hot: l.Rate * l.Hot, others: float64(l.Buckets - 1)}
	s.parent = s.admitted * l.Cascade / float64(l.Parents)
	if l.Refused > 0 {
		part := min(1, l.Refused/l.RefusedOf)
		s.limited = max(1, math.Round(part*float64(l.Buckets)))
		s.others = max(0, float64(l.Buckets)-s.limited-1)
		s.asked = part * l.Rate / s.limited
	}
	rest := l.Rate - s.hot - s.asked*s.limited
	if rest <= 0 {
		s.hot, s.others, rest = max(0, l.Rate-s.asked*s.limited), 0, 0
	}
	if s.others > 0 {
		s.each = rest / s.others
	}
	return s
}

// units are the write units of a write to a bucket item.
func (l *Load) units() float64 { return unitsOf(l.ItemBytes) }

// unitsOf are the write units of a write to an item of a size.
func unitsOf(bytes int) float64 {
	return math.Ceil(float64(bytes) / kilobyte)
}

// write is a part of so many writes to bucket items a second.
func (l *Load) write(name string, writes float64) Part {
	return Part{Name: name, Requests: writes, Writes: writes * l.units(), applied: writes}
}

// admitted is the first try of each admitted request, as far as callers do not share it.
// Where the busiest bucket comes near 1,000 writes a second, callers wait for the hidden
// write limit and share more: the figure is an upper bound there.
func (l *Load) admitted(s split) Part {
	limited := s.asked * (1 - l.RefusedOf)
	if l.RefusedOf < l.Refused || s.limited == 0 {
		limited = 0
	}
	writes := l.busy.hot.writes + s.others*l.busy.each.writes + s.limited*limited
	return l.write(PartAdmitted, writes)
}

// contention are tries that fail because another process has written, and looks before a write.
func (l *Load) contention(s split) Part {
	part := l.write(PartContention, l.busy.hot.retries+s.others*l.busy.each.retries)
	part.applied, part.Reads = 0, l.busy.hot.reads+s.others*l.busy.each.reads
	return part
}

// refusals are the writes that fail because the bucket is short, and the tries of admitted
// requests on buckets that refuse others. Processes that share such a bucket read it before they
// write.
func (l *Load) refusals(s split) Part {
	if s.limited == 0 {
		return Part{Name: PartRefused}
	}
	b, granted := &l.busy.limited, s.asked*(1-l.RefusedOf)
	part := l.write(PartRefused, max(0, s.limited*(b.writes+b.retries+b.refused-granted)))
	part.applied, part.Reads = 0, s.limited*b.reads
	part.Requests += 2 * part.Reads
	return part
}

// parents are the writes to the buckets of parents. A refused request that reaches the
// store costs two more: the parent's side, and the credit.
func (l *Load) parents(s split) Part {
	if l.Cascade == 0 {
		return Part{Name: PartParents}
	}
	n, each := float64(l.Parents), l.busy.parent
	part := l.write(PartParents, n*(each.writes+each.retries)+2*l.Cascade*l.refusals(s).Writes/l.units())
	part.applied = n * each.writes
	return part
}

// contentionShare is the share of the admitted requests that need a second try. A bucket
// fills up again within Used of the time between two of its requests. The write that cuts
// the overflow fails if another process has written within four times that.
func (l *Load) contentionShare() float64 {
	const others = 4
	return (1 - 1/float64(l.Processes)) * (1 - math.Exp(-others*l.Used))
}

// adjustments are the writes of commits that adjust, one for each side.
func (l *Load) adjustments() Part {
	return l.write(PartAdjusted, l.Rate*(1-l.Refused)*l.Adjusted*(1+l.Cascade))
}

// A use is a number of buckets that are used alike.
type use struct {
	buckets float64
	each    float64 // requests a second to each of them
}

// uses are the buckets of a load, parents last.
func (l *Load) uses(s split) []use {
	return []use{{1, s.hot}, {s.others, s.each}, {s.limited, s.asked}, {float64(l.Parents), s.parent}}
}

// comparisons are the reads by which each process compares the buckets that it uses with
// the configuration, at three quarters of the time to live. Three items are the entity's
// own. The resource's and the system's are read for all buckets, and again when the last
// read is a quarter of the time to live old. A bucket is due by its oldest item. So
// buckets that are used often are all compared in a short time, with what the first of
// them read.
func (l *Load) comparisons(s split) Part {
	const own, above = 1.5, 1.0
	ttl, p := l.ConfigTTL.Seconds(), float64(l.Processes)
	due, young := ttl*3/4, ttl/4
	rate, late := 0.0, 0.0 // comparisons a second of one process, and buckets out of step
	for range 20 {         // the age of what is shared depends on the rate, and the other way round
		age := rate * young * young / 2 / (1 + rate*young)
		rate, late = 0, 0
		for _, of := range l.uses(s) {
			if of.each == 0 || of.buckets == 0 {
				continue
			}
			gap := p / of.each
			out := math.Exp(-young / gap) // the share that comes too late to be in step
			shared := gap*(1-out*(1+young/gap)) + out*age
			rate += of.buckets / (due - shared + gap)
			late += of.buckets * out
		}
	}
	if rate == 0 {
		return Part{Name: PartConfig}
	}
	out := 1 - math.Exp(-late) // one that is late reads again what all share
	reads := rate*own + above*((1-out)/(due+1/rate)+out/(young+1/rate))
	return Part{Name: PartConfig, Requests: p * rate, Reads: p * reads}
}

// births are the first requests of buckets, beyond what any request costs.
func (l *Load) births() Part {
	const requests, reads, writes = 3, 8.5, 3
	p := l.write(PartNew, l.NewBuckets*writes)
	p.Requests, p.Reads, p.applied = l.NewBuckets*requests, l.NewBuckets*reads, 0
	return p
}

// usage are the pages of buckets: one when a bucket has been used in so many hours, and with
// an aggregator the last one of each bucket, which every bucket has that expires.
func (l *Load) usage(s split) Part {
	const atOnce = 25 // last pages in a request
	pages := 0.0
	for _, of := range l.uses(s) {
		pages += pagesOf(of.buckets, of.each, l.Limits, l.ItemBytes)
	}
	p := Part{Name: PartUsage, Requests: requestsOfPage * pages, Reads: pages, Writes: pages}
	if l.Aggregator {
		p.Requests += requestsOfPage * l.NewBuckets / atOnce
		p.Reads += l.NewBuckets * (atOnce + 1) / atOnce
		p.Writes += l.NewBuckets
	}
	return p
}

// calls are the calls of the aggregator's function a second. The record of each bucket that expires
// reaches it. Of the writes to a bucket that has one shard, only those to a busy one do.
func (e *Estimate) calls(s split) float64 {
	l := &e.Load
	if !l.Aggregator {
		return 0
	}
	const perShard = 1000 // write units a second of a partition, and so of a stream shard
	b, f := &l.busy, &l.Function
	records := l.NewBuckets + b.hot.reached + s.others*b.each.reached + s.limited*b.limited.reached + float64(l.Parents)*b.parent.reached
	streams := max(1, math.Ceil(e.Sum.Writes/perShard))
	return records / min(float64(f.BatchRecords), max(1, records/streams*(f.BatchWindow+poll).Seconds()))
}

// requestsOfPage are a read whether the entity was deleted, and the write.
const requestsOfPage = 2

// poll is the time between two reads of a stream: a batch window begins with the read of its first
// record.
const poll = 250 * time.Millisecond

// pagesOf are the pages a second of buckets that are used at a rate each. A text with hours of
// two months makes two.
func pagesOf(buckets, rate float64, limits, itemBytes int) float64 {
	if buckets == 0 || rate == 0 {
		return 0
	}
	const month = 730
	hours := hoursOfPage(limits, itemBytes, rate)
	lasts := (hours - 1) / hoursUsed(rate)
	return buckets * hoursUsed(rate) / time.Hour.Seconds() / hours * (1 + min(1, lasts/month))
}

// hoursUsed is the share of the hours in which a bucket is used.
func hoursUsed(rate float64) float64 { return 1 - math.Exp(-rate*time.Hour.Seconds()) }

// hoursOfPage are the hours that fill the text of a bucket, on average of some texts of random
// hours. A request takes one token of the first limit, and hundreds of the others.
func hoursOfPage(limits, itemBytes int, rate float64) float64 {
	room := diary.Room(itemBytes)
	const tokens, texts, epoch, farthest = 300, 50, 490_000, 1_000_000
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // an estimate is to repeat
	mean := rate * time.Hour.Seconds()
	entries := 0.0
	for range texts {
		hour := int32(epoch)
		for text := ""; !diary.IsFull(text, room); entries++ {
			hour += 1 + int32(min(farthest, random.ExpFloat64()/mean))
			requests := used(random, mean)
			e := diary.Entry{Hour: hour, Amounts: []store.Amount{{Milli: requests}}}
			for i := range limits {
				each := int64(1)
				if i > 0 {
					each = tokens + int64(i)
				}
				e.Amounts = append(e.Amounts, store.Amount{Limit: fmt.Sprintf("l%02d", i), Milli: requests * each * milli})
			}
			text = diary.Append(text, e)
		}
	}
	return entries / texts
}

const milli = 1000 // millitokens of a token

// used draws the requests of an hour that has any.
func used(random *rand.Rand, mean float64) int64 {
	const few, many = 0.01, 100
	switch {
	case mean < few:
		return 1
	case mean > many:
		return int64(mean)
	}
	for {
		n := int64(0)
		for sum := random.ExpFloat64(); sum <= mean; sum += random.ExpFloat64() {
			n++
		}
		if n > 0 {
			return n
		}
	}
}

// shards are the shards of the busiest bucket: a power of two, each with at most four
// fifths of the 1,000 write units a second of a partition.
func (l *Load) shards() int {
	const most, maxShards, two = 800, 32, 2
	hot := l.busy.hot
	n := hot.shards
	for n < maxShards && hot.writes > float64(n)*most {
		n *= two
	}
	return n
}

// Bytes that are stored: those of a page, and those that an item costs beside its own, for
// itself and for its index entries.
const page, overhead, indexed = 400, 100, 100

// stored are the bytes of bucket items, and of pages of usage while they are kept. Usage of a
// month expires together.
func (l *Load) stored(pages float64) float64 {
	buckets := float64(l.Buckets)
	if l.Cascade > 0 {
		buckets += float64(l.Parents)
	}
	return buckets*float64(l.ItemBytes+overhead+indexed) + pagesKept(pages, l.Retention)
}

// pagesKept are the bytes of pages, of which there are so many a second.
func pagesKept(pages float64, retention time.Duration) float64 {
	return pages * (retention + halfMonth).Seconds() * (page + overhead)
}

// halfMonth is how long a page waits on average for the end of its month.
const halfMonth = 365 * time.Hour
