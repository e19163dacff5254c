package schema

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/store"
)

// sharedSlots is how many parameters of limits are remembered, and sharedProbes how many places each may be in.
const (
	sharedSlots  = 1 << 12
	sharedProbes = 8
)

// sharedParams are the parameters of limits that images have, each in one of the places from its hash on. Most
// buckets have the limits of a few levels, so a process that remembers 100,000 of them has these parameters once.
// If all its places are taken, the newest replaces one: parameters that are forgotten are only shared less.
var (
	sharedParams [sharedSlots]atomic.Pointer[store.Params]
	sharedSeed   = maphash.MakeSeed()
)

// shared returns parameters that are equal to p and that nobody changes.
func shared(p *store.Params) *store.Params {
	h := maphash.Comparable(sharedSeed, *p)
	for i := range uint64(sharedProbes) {
		place := &sharedParams[(h+i)%sharedSlots]
		is := place.Load()
		if is == nil {
			break
		}
		if *is == *p {
			return is
		}
	}
	is := new(*p)
	for i := range uint64(sharedProbes) {
		if sharedParams[(h+i)%sharedSlots].CompareAndSwap(nil, is) {
			return is
		}
	}
	sharedParams[(h+h>>32%sharedProbes)%sharedSlots].Store(is)
	return is
}
