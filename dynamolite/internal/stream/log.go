package stream

import "sort"

// entry is a record at rest.
type entry[R any] struct {
	position uint64
	at       int64 // milliseconds since 1970
	size     int
	value    R
}

// chunkLen is how many entries are allocated together.
const chunkLen = 128

// log is a queue of entries by position. It grows and shrinks by chunks, so that no append copies
// the existing entries. One growing slice would stop the writes of the whole database while it
// copies a day's records. All chunks but the last are full.
type log[R any] struct {
	chunks [][]entry[R]
	head   int // entries removed from the first chunk
	n      int // number of entries
}

// at returns the entry with i entries before it.
func (l *log[R]) at(i int) *entry[R] {
	i += l.head
	return &l.chunks[i/chunkLen][i%chunkLen]
}

func (l *log[R]) push(e entry[R]) {
	last := len(l.chunks) - 1
	if last < 0 || len(l.chunks[last]) == chunkLen {
		l.chunks = append(l.chunks, make([]entry[R], 0, chunkLen))
		last++
	}
	l.chunks[last] = append(l.chunks[last], e)
	l.n++
}

// pop removes the first entry and releases its value. The slot is cleared: the chunk stays as long
// as its last entry, and must not hold the values of the others.
func (l *log[R]) pop() entry[R] {
	e := *l.at(0)
	*l.at(0) = entry[R]{}
	l.head++
	l.n--
	if l.head == chunkLen {
		l.chunks[0] = nil
		l.chunks = l.chunks[1:]
		l.head = 0
	}
	return e
}

// after returns how many entries are not after a position.
func (l *log[R]) after(position uint64) int {
	return sort.Search(l.n, func(i int) bool { return l.at(i).position > position })
}

// since returns how many entries are older than an instant. The times of a shard never decrease,
// because the stream's time never does.
func (l *log[R]) since(milli int64) int {
	return sort.Search(l.n, func(i int) bool { return l.at(i).at >= milli })
}
