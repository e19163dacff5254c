package wall

import "time"

// Partitions returns how many partitions a meter remembers. It panics if the internal counts do
// not agree.
func (m *Meter) Partitions(op Op) int {
	n := 0
	for i := range m.sides[op].partitions.shards {
		s := &m.sides[op].partitions.shards[i]
		s.mu.Lock()
		n += len(s.slots)
		if len(s.index) != len(s.slots) {
			panic("index and slots differ")
		}
		drained := int32(0)
		for j := range s.slots {
			drained += s.slots[j].bucket.drained()
		}
		if s.drained.Load() != drained {
			panic("the drained slots are not counted right")
		}
		s.mu.Unlock()
	}
	return n
}

// Room returns how many partitions a meter has memory for.
func (m *Meter) Room(op Op) int {
	n := 0
	for i := range m.sides[op].partitions.shards {
		s := &m.sides[op].partitions.shards[i]
		s.mu.Lock()
		n += cap(s.slots)
		s.mu.Unlock()
	}
	return n
}

// Bucket is a single bucket.
type Bucket struct {
	pace   pace
	bucket bucket
}

// NewBucket returns a full bucket of so many half units per second that keeps the given time's
// worth.
func NewBucket(rate int64, keep time.Duration) Bucket {
	p := perSecond(rate, keep)
	return Bucket{p, bucket{balance: p.depth}}
}

// Refilled returns the bucket at an instant after its creation.
func (b Bucket) Refilled(at time.Duration) Bucket {
	return Bucket{b.pace, b.pace.refilled(b.bucket, int64(at))}
}

// Charged returns the bucket less half units.
func (b Bucket) Charged(halves int64) Bucket { return Bucket{b.pace, b.pace.charged(b.bucket, halves)} }

// Full reports whether the bucket cannot hold more.
func (b Bucket) Full() bool { return b.bucket.balance == b.pace.depth }

// Grains returns the balance and how many grains a half unit has.
func (b Bucket) Grains() (balance, half int64) { return b.bucket.balance, b.pace.half }
