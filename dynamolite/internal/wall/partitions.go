package wall

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// Partition identifies a partition key value within a table or an index. Two values share an
// identifier with the probability that 64 random bits are equal.
type Partition uint64

// NoPartition is for a request that belongs to no single partition, such as a Scan: only the
// whole is checked and charged.
const NoPartition Partition = 0

var seed = maphash.MakeSeed()

// PartitionOf returns the identifier of an encoded partition key. Identifiers differ between
// processes.
func PartitionOf[K string | []byte](key K) Partition {
	var hash uint64
	switch key := any(key).(type) { // does not allocate, unlike a conversion to one of the types
	case string:
		hash = maphash.String(seed, key)
	case []byte:
		hash = maphash.Bytes(seed, key)
	}
	return max(Partition(hash), NoPartition+1)
}

// partitionShards is how many locks the partitions of a meter have.
const partitionShards = 64

// partitions are the buckets of one meter's partitions, for reads or for writes.
type partitions struct {
	pace   pace // rate 0: no limit
	shards [partitionShards]partitionShard
}

// partitionShard holds the buckets that are not full, and some full ones that will be forgotten.
type partitionShard struct {
	// drained is how many slots had a balance of 0 or less when they were last charged. While it
	// is 0 everything is admitted without a lock or a lookup, because a balance only grows
	// between charges. Written under the lock.
	drained atomic.Int32

	mu     sync.Mutex
	latest int64 // the latest instant seen; earlier ones count as this one
	index  map[Partition]int32
	slots  []slot // in no order; index has the places
	cursor int    // the next slot to check for forgetting
}

type slot struct {
	partition Partition
	bucket    bucket
}

func (ps *partitions) limit(rate int64) {
	if rate > 0 {
		ps.pace = perSecond(rate, time.Second)
	}
}

// admits reports whether a partition has anything left.
func (ps *partitions) admits(now int64, p Partition) bool {
	s := &ps.shards[p%partitionShards]
	if s.drained.Load() == 0 || p == NoPartition {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = max(s.latest, now)
	i, known := s.index[p]
	return !known || ps.pace.refilled(s.slots[i].bucket, s.latest).balance > 0
}

// charge takes half units, more than 0, from a partition.
func (ps *partitions) charge(now int64, p Partition, halves int64) {
	if ps.pace.rate == 0 || p == NoPartition {
		return
	}
	s := &ps.shards[p%partitionShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = max(s.latest, now)
	i, known := s.index[p]
	look := 1
	if !known {
		look = 2
		i = s.addLocked(p, bucket{at: s.latest, balance: ps.pace.depth})
	}
	b := &s.slots[i].bucket
	s.drained.Add(-b.drained())
	*b = ps.pace.charged(ps.pace.refilled(*b, s.latest), halves)
	s.drained.Add(b.drained())
	s.forgetLocked(&ps.pace, look)
}

// drained returns 1 if the balance is 0 or less, else 0.
func (b *bucket) drained() int32 {
	if b.balance > 0 {
		return 0
	}
	return 1
}

func (s *partitionShard) addLocked(p Partition, b bucket) int32 {
	if s.index == nil {
		s.index = map[Partition]int32{}
	}
	i := int32(len(s.slots)) //nolint:gosec // 2^31 partitions do not fit into memory
	s.index[p] = i
	s.slots = append(s.slots, slot{p, b})
	return i
}

// forgetLocked looks at some slots, in turn, and drops those that are full again. A charge that
// adds a slot looks at two, which keeps the slots to about twice the buckets that are not full.
// Every other charge looks at one, which clears the remains of a storm.
func (s *partitionShard) forgetLocked(p *pace, look int) {
	for range look {
		if s.cursor >= len(s.slots) {
			s.cursor = 0
		}
		at := &s.slots[s.cursor]
		if p.refilled(at.bucket, s.latest).balance < p.depth {
			s.cursor++
			continue
		}
		s.drained.Add(-at.bucket.drained())
		delete(s.index, at.partition)
		last := len(s.slots) - 1
		if *at = s.slots[last]; s.cursor < last {
			s.index[at.partition] = int32(s.cursor) //nolint:gosec // as above
		}
		s.slots = s.slots[:last]
		s.shrinkLocked()
	}
}

// shrinkLocked frees the memory that a storm of keys took, once three quarters of it are unused.
// Neither a slice nor a map does so by itself.
func (s *partitionShard) shrinkLocked() {
	const worthwhile = 1024
	if cap(s.slots) < worthwhile || len(s.slots) > cap(s.slots)/4 {
		return
	}
	s.slots = append(make([]slot, 0, cap(s.slots)/2), s.slots...)
	s.index = make(map[Partition]int32, len(s.slots))
	for i := range s.slots {
		s.index[s.slots[i].partition] = int32(i) //nolint:gosec // as above
	}
}
