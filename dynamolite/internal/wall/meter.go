package wall

import "time"

// Op is the kind of access to the table or index.
type Op int

// The kinds of access, which have separate limits.
const (
	Read Op = iota
	Write
	ops // number of kinds
)

// Level is the limit that refuses a request.
type Level int

const (
	// Admitted means that no limit refuses the request.
	Admitted Level = iota
	// KeyRange is the limit of a partition, or of an on-demand table that has not grown further
	// yet. AWS has one reason for both: "Key range throughput exceeded (hot partitions)" names
	// the table's warm throughput as the first thing to check.
	KeyRange
	// Provisioned is the limit of the provisioned throughput.
	Provisioned
	// AccountLimit is the account's quota for an on-demand table.
	AccountLimit
)

// Throughput is in half units per second, at most 2 million; a larger value counts as 2 million.
// 0 is no limit.
type Throughput struct{ Read, Write int64 }

func (t Throughput) of(op Op) int64 {
	if op == Read {
		return t.Read
	}
	return t.Write
}

// Capacity is the throughput of a table or an index over all its partitions. The zero value is
// unlimited.
type Capacity struct {
	// Provisioned is the throughput of a provisioned table. If it is set, all other fields but
	// Burst are ignored.
	Provisioned Throughput
	// Burst is how long unused provisioned throughput is kept, at least a second and at most ten minutes.
	Burst time.Duration
	// Initial is the throughput of a new on-demand table; it grows with the peaks. 0: there is no
	// ramp.
	Initial Throughput
	// Quota is the limit to which an on-demand table can grow.
	Quota Throughput
}

func (c *Capacity) of(op Op) capacity {
	return capacity{
		provisioned: c.Provisioned.of(op), burst: c.Burst,
		initial: c.Initial.of(op), quota: c.Quota.of(op),
	}
}

// Meter is the throughput of one table or one global secondary index. A nil *Meter admits
// everything and costs nothing. All methods are safe for concurrent use.
//
// An instant earlier than that of a previous charge counts as the later one. Instants that
// concurrent requests bring in the wrong order therefore grant nothing twice. If the clock is set
// back, refilling stops until the clock has caught up.
type Meter struct {
	epoch time.Time
	sides [ops]struct {
		partitions partitions
		whole      whole
	}
}

// New makes the meter of a table or an index that is created now. Partition is the throughput of
// each partition key value.
func New(now time.Time, partition Throughput, c Capacity) *Meter {
	m := &Meter{epoch: now}
	for op := range ops {
		m.sides[op].partitions.limit(partition.of(op))
	}
	m.Configure(now, c)
	return m
}

// Configure sets another capacity, as UpdateTable does. Past consumption is kept.
func (m *Meter) Configure(now time.Time, c Capacity) {
	if m == nil {
		return
	}
	at := m.since(now)
	for op := range ops {
		m.sides[op].whole.configure(at, c.of(op))
	}
}

// Check reports whether a request on a partition is admitted. It takes nothing: [Meter.Charge]
// charges the actual cost. Requests between their check and their charge do not see each other.
// All requests that run at once may therefore be admitted on the last half unit.
//
// A request on several partitions is admitted if each check admits it, and is then charged on all
// of them. A request that costs more than a bucket holds therefore passes while the bucket is not
// empty.
func (m *Meter) Check(now time.Time, op Op, p Partition) Level {
	if m == nil {
		return Admitted
	}
	side, at := &m.sides[op], m.since(now)
	if !side.partitions.admits(at, p) {
		return KeyRange
	}
	return side.whole.check(at)
}

// Charge takes the cost of a request, in half units, at most 67 million at once. 0 and less take
// nothing.
func (m *Meter) Charge(now time.Time, op Op, p Partition, halves int64) {
	if m == nil || halves <= 0 {
		return
	}
	side, at := &m.sides[op], m.since(now)
	halves = min(halves, maxCharge)
	side.partitions.charge(at, p, halves)
	side.whole.charge(at, halves)
}

// since returns an instant as nanoseconds since the meter was made. It uses the monotonic clock
// if the instants have it.
func (m *Meter) since(now time.Time) int64 { return int64(now.Sub(m.epoch)) }
