package sim_test

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// dice are the random numbers of a run. A stream depends on the seed and on its purpose,
// not on which goroutine asks first.
type dice uint64

// stream is the generator for one purpose.
func (d dice) stream(purpose ...string) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(d), d.hash(purpose...)))
}

func (d dice) hash(purpose ...string) uint64 {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(d))
	h.Write(b[:])
	for _, p := range purpose {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	// With FNV alone, similar inputs have similar high bits.
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// span draws a duration from lo up to hi.
func span(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Int64N(int64(hi-lo)+1))
}

func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
