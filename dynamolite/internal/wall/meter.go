package wall

import "time"

// Op is what a request does to the table or index.
type Op int

// The directions, which have limits of their own.
const (
	Read Op = iota
	Write
	ops // how many there are
)

// Level is which limit refuses a request.
type Level int

const (
	// Admitted is no limit: go on.
	Admitted Level = iota
	// KeyRange is what a partition serves, or an on-demand table that has not grown to more yet. AWS
	// has one reason for both: "Key range throughput exceeded (hot partitions)" names the table's warm
	// throughput as the first thing to check.
	KeyRange
	// Provisioned is the provisioned throughput.
	Provisioned
	// AccountLimit is the account's quota for an on-demand table.
	AccountLimit
)

// Throughput is half units per second, at most 2 million; more counts as that. 0 is no limit.
type Throughput struct{ Read, Write int64 }

func (t Throughput) of(op Op) int64 {
	if op == Read {
		return t.Read
	}
	return t.Write
}

// Capacity is what a table or an index with all its partitions may use. The zero value is unlimited.
type Capacity struct {
	// Provisioned is the throughput of a provisioned table. Where it is set the rest is ignored, but
	// for Burst.
	Provisioned Throughput
	// Burst is how long unused provisioned throughput is kept, at least a second and at most ten minutes.
	Burst time.Duration
	// Initial is what a new on-demand table serves; it grows with the peaks. 0: there is no ramp.
	Initial Throughput
	// Quota is what an on-demand table never grows beyond.
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
// An instant earlier than that of a charge before it counts as the later one, so instants that
// concurrent requests bring in the wrong order grant nothing twice. A clock that is set back stops
// the refilling until it has caught up.
type Meter struct {
	epoch time.Time
	sides [ops]struct {
		partitions partitions
		whole      whole
	}
}

// New makes the meter of a table or an index that is created now. Partition is what each partition key
// value may use.
func New(now time.Time, partition Throughput, c Capacity) *Meter {
	m := &Meter{epoch: now}
	for op := range ops {
		m.sides[op].partitions.limit(partition.of(op))
	}
	m.Configure(now, c)
	return m
}

// Configure sets another capacity, as UpdateTable does. Consumption of the past stays what it was.
func (m *Meter) Configure(now time.Time, c Capacity) {
	if m == nil {
		return
	}
	at := m.since(now)
	for op := range ops {
		m.sides[op].whole.configure(at, c.of(op))
	}
}

// Check tells whether a request on a partition is admitted. It takes nothing: what the request did
// cost is charged with [Meter.Charge]. Requests between the one and the other do not see each
// other, so as many as run at once may be admitted on the last half unit.
//
// A request on several partitions is admitted if each of them says so, and is then charged on all.
// One that costs more than a bucket holds thus passes while the bucket is not empty.
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

// Charge takes what a request has cost, in half units, at most 67 million at once. 0 and less take nothing.
func (m *Meter) Charge(now time.Time, op Op, p Partition, halves int64) {
	if m == nil || halves <= 0 {
		return
	}
	side, at := &m.sides[op], m.since(now)
	halves = min(halves, maxCharge)
	side.partitions.charge(at, p, halves)
	side.whole.charge(at, halves)
}

// since is an instant as nanoseconds from the making of the meter. It follows the monotonic clock where
// the instants have it.
func (m *Meter) since(now time.Time) int64 { return int64(now.Sub(m.epoch)) }
