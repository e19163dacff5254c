package estimate

// The causes on which a simulation books requests, in the order of a report.
const (
	causeAdmitted = iota
	causeContention
	causeRefused
	causeParents
	causeAdjusted
	causeCalls
	causeConfig
	causeNew
	causeDoubled
	causeUsage
	causes
)

// causeNames are the names of the causes as parts.
var causeNames = [causes]string{
	PartAdmitted, PartContention, PartRefused, PartParents, PartAdjusted, PartCalls, PartConfig, PartNew, PartDoubled, PartUsage,
}

// A book has what a simulation has spent.
type book struct {
	of      [causes]cost
	records float64 // writes to bucket items that were applied
	batches float64 // calls of the aggregator's function
	opened  [len(windows)]float64
}

type cost struct{ requests, writes, reads float64 }

func (b *book) add(cause int, writes, reads float64) {
	c := &b.of[cause]
	c.requests++
	c.writes += writes
	c.reads += reads
}

// less takes back the count of a request that was booked in two halves.
func (b *book) less(cause int) { b.of[cause].requests-- }

// since is what was spent after an earlier state of the book.
func (b *book) since(before *book) book {
	diff := *b
	for i := range diff.of {
		diff.of[i].requests -= before.of[i].requests
		diff.of[i].writes -= before.of[i].writes
		diff.of[i].reads -= before.of[i].reads
	}
	diff.records -= before.records
	diff.batches -= before.batches
	for i := range diff.opened {
		diff.opened[i] -= before.opened[i]
	}
	return diff
}

// plus adds another book.
func (b *book) plus(other *book) {
	for i, c := range other.of {
		b.of[i].requests += c.requests
		b.of[i].writes += c.writes
		b.of[i].reads += c.reads
	}
	b.records += other.records
	b.batches += other.batches
}

// last makes a load last so many times as long. Buckets are new and are doubled only once.
func (b *book) last(times float64) {
	for i := range b.of {
		if i != causeNew && i != causeDoubled {
			b.of[i] = cost{b.of[i].requests * times, b.of[i].writes * times, b.of[i].reads * times}
		}
	}
	b.records *= times
	b.batches *= times
}

// costs are the causes of a book that cost anything.
func (b *book) costs() (all []Cost) {
	for i, c := range b.of {
		if c != (cost{}) {
			all = append(all, Cost{causeNames[i], c.requests, c.writes, c.reads})
		}
	}
	return all
}

// A stream is the table's stream and the aggregator behind it: the records of a time are a
// batch, and each bucket and window in a batch is one write.
type stream struct {
	s       *simulation
	batches map[uint64]*batch // by partition
	opened  [len(windows)]map[bucketKey]int64
}

type batch struct {
	records int
	buckets map[bucketKey]bool
	number  int // of batches before it
}

func (t *stream) init(s *simulation) {
	*t = stream{s: s, batches: map[uint64]*batch{}}
	for i := range t.opened {
		t.opened[i] = map[bucketKey]int64{}
	}
}

// record notes a write to an item.
func (t *stream) record(it *item, shard int) {
	s := t.s
	s.books.records++
	if s.o.Windows == 0 {
		return
	}
	const perPartition = 1000 // writes a second
	partitions := uint64(1 + s.books.records/max(1, s.now.Seconds())/perPartition)
	at := uint64(it.key.entity*len(s.p.Resources)+it.key.resource+shard) % partitions
	b := t.batches[at]
	if b == nil {
		b = &batch{buckets: map[bucketKey]bool{}}
		t.batches[at] = b
	}
	if b.records++; b.records == 1 {
		number := b.number
		s.after(s.o.Function.BatchWindow, func() {
			if b.number == number {
				t.flush(b)
			}
		})
	}
	if b.buckets[it.key] = true; b.records >= s.o.Function.BatchRecords {
		t.flush(b)
	}
}

// flush is a call of the function.
func (t *stream) flush(b *batch) {
	s := t.s
	s.books.batches++
	for key := range b.buckets {
		for i := range s.o.Windows {
			s.books.add(causeUsage, 1, 0)
			window := 1 + int64(s.now/windows[i])
			if t.opened[i][key] != window {
				const begun = 2
				t.opened[i][key] = window
				s.books.opened[i]++
				s.books.of[causeUsage].writes += begun
			}
		}
	}
	b.records, b.number = 0, b.number+1
	clear(b.buckets)
}
