package memory

// entries are the entries of one shard of a [Cache], found by their keys. Its zero value has none.
// They are in blocks, which never move, and whose places are used again. So no entry is garbage
// before the cache is.
type entries[K comparable, V any] struct {
	blocks []*[blockEntries]cached[K, V]
	// heads has the first entry of each chain. An entry is in the chain of the low bits of its hash.
	// The number of heads is a power of two, and at least that of the entries.
	heads []place
	free  place // the first place that is free; the others follow in its chain
	last  place // the last place that was ever used
	n     int
}

// A place is the number of an entry in its shard, from 1 on. 0 is no entry.
type place uint32

// blockEntries is small, so that a cache of few entries takes little. One more entry, and the eight
// bytes that the runtime adds to a block, would take the next larger size that the runtime has.
const blockEntries = 15

// fewestHeads is the number of heads for the first entries.
const fewestHeads = 8

// A cached is an entry, with its neighbours in the order of use, and the next of its chain.
type cached[K comparable, V any] struct {
	key   K
	value V

	newer, older, chained place

	hash      uint32 // the upper half, because the lower one chooses the shard
	number    uint32 // see [cacheShard.made]; of this entry
	protected bool
}

func upper(h uint64) uint32 { return uint32(h >> 32) } //nolint:mnd // the upper half

// at returns an entry, which stays where it is until it is removed.
func (t *entries[K, V]) at(p place) *cached[K, V] {
	return &t.blocks[(p-1)/blockEntries][(p-1)%blockEntries]
}

// head is the head of the chain of a hash.
func (t *entries[K, V]) head(hash uint32) *place {
	return &t.heads[hash&uint32(len(t.heads)-1)] //nolint:gosec // there are fewer heads than places
}

// find returns the place of a key, 0 if there is none.
func (t *entries[K, V]) find(h uint64, k K) place {
	if t.n == 0 {
		return 0
	}
	for p := *t.head(upper(h)); p != 0; {
		e := t.at(p)
		if e.hash == upper(h) && e.key == k {
			return p
		}
		p = e.chained
	}
	return 0
}

// add takes in an entry whose key has no place.
func (t *entries[K, V]) add(h uint64, e cached[K, V]) place {
	if t.n == len(t.heads) {
		t.grow()
	}
	t.n++
	p := t.free
	if p != 0 {
		t.free = t.at(p).chained
	} else {
		if int(t.last) == len(t.blocks)*blockEntries {
			t.blocks = append(t.blocks, new([blockEntries]cached[K, V]))
		}
		t.last++
		p = t.last
	}
	e.hash = upper(h)
	head := t.head(e.hash)
	e.chained, *head = *head, p
	*t.at(p) = e
	return p
}

// grow doubles the number of heads.
func (t *entries[K, V]) grow() {
	old := t.heads
	t.heads = make([]place, max(fewestHeads, 2*len(old)))
	for _, p := range old {
		for p != 0 {
			e := t.at(p)
			next, head := e.chained, t.head(e.hash)
			e.chained, *head = *head, p
			p = next
		}
	}
}

// remove lets go of an entry. Its place is free.
func (t *entries[K, V]) remove(p place) {
	e := t.at(p)
	link := t.head(e.hash)
	for *link != p {
		link = &t.at(*link).chained
	}
	*link = e.chained
	*e = cached[K, V]{chained: t.free}
	t.free = p
	t.n--
}
