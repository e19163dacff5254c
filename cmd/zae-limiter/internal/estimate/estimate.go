package estimate

import (
	"math"
	"time"
)

// An Estimate is what a load costs a second, and where. Units are DynamoDB's write and
// read units.
type Estimate struct {
	Load  Load   `json:"-"`
	Parts []Part `json:"parts"` // load by cause
	Sum   Part   `json:"sum"`   // the sum of all parts
	// Shards are the shards that the busiest bucket needs.
	Shards int `json:"hottest_bucket_shards"`
	// Records are stream records of buckets a second, and Invocations calls of the function.
	Records     float64 `json:"stream_records_per_second"`
	Invocations float64 `json:"function_calls_per_second"` // calls of the aggregator per second
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
	e.add(e.usage(s))
	e.Shards = l.shards()
	e.StoredBytes = l.stored(s)
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

// usage are the writes of an aggregator: one for each bucket and window in a batch, and two
// more when a window begins.
func (e *Estimate) usage(s split) Part {
	l := &e.Load
	if l.Windows == 0 {
		return Part{Name: PartUsage}
	}
	const perShard = 1000 // write units a second of a partition, and so of a stream shard
	f := &l.Function
	streams := max(1, math.Ceil(e.Sum.Writes/perShard))
	records := min(float64(f.BatchRecords), max(1, e.Records/streams*(f.BatchWindow+poll).Seconds()))
	e.Invocations = e.Records / records
	batch := 0.0 // different buckets in a batch
	for _, of := range l.uses(s) {
		batch += of.buckets * (1 - math.Exp(-records*of.each/(s.admitted*(1+l.Cascade))))
	}
	w := float64(l.Windows)
	writes := e.Invocations * min(batch, records) * w
	opened := 0.0
	for i := range l.Windows {
		const units = 2
		opened += units * l.active(s, windows[i]) / windows[i].Seconds()
	}
	return Part{Name: PartUsage, Requests: writes, Writes: writes + opened}
}

// poll is the time between two reads of a stream: a batch window begins with the read of its first
// record.
const poll = 250 * time.Millisecond

// windows are those that an aggregator counts: hour, day and month.
var windows = [...]time.Duration{time.Hour, 24 * time.Hour, 730 * time.Hour}

// active are the buckets, parents included, that are used in a window.
func (l *Load) active(s split, window time.Duration) (n float64) {
	for _, of := range l.uses(s) {
		n += of.buckets * (1 - math.Exp(-of.each*window.Seconds()))
	}
	return n
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

// Bytes that are stored: those of a usage item, and those that an item costs beside its own.
const overhead, usageItem = 200, 400

// stored are the bytes of bucket and usage items, with 100 bytes of overhead each and as
// much for index entries.
func (l *Load) stored(s split) float64 {
	buckets := float64(l.Buckets)
	if l.Cascade > 0 {
		buckets += float64(l.Parents)
	}
	bytes := buckets * float64(l.ItemBytes+overhead)
	for i := range l.Windows {
		kept := l.Retention.Seconds()/windows[i].Seconds() + 1
		bytes += l.active(s, windows[i]) * kept * (usageItem + overhead)
	}
	return bytes
}
