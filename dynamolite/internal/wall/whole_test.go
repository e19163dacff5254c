package wall_test

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

func TestProvisioned(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		burst    time.Duration
		idle     time.Duration
		from, to int // writes admitted in 10 s, at 200 per second against 100 WCU
	}{
		{"new", 5 * time.Minute, 0, 1100, 1101},
		{"idle for a second", 5 * time.Minute, time.Second, 1200, 1201},
		{"idle for five minutes", 5 * time.Minute, 5 * time.Minute, 2000, 2000},
		{"no burst", 0, 5 * time.Minute, 1100, 1101},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := wall.New(start, wall.Throughput{}, wall.Capacity{Provisioned: wall.Throughput{Read: 20, Write: 200}, Burst: tt.burst})
			admitted, refused := drive(m, tt.idle, tt.idle+10*time.Second, 200, 2, named("k"))
			if n := sum(admitted); n < tt.from || n > tt.to {
				t.Errorf("%d of 2,000 writes admitted, want %d to %d", n, tt.from, tt.to)
			}
			if n := refused[wall.Provisioned]; n != 2000-sum(admitted) {
				t.Errorf("refused %v, want all by Provisioned", refused)
			}
		})
	}
}

// Five minutes of credit can be used at any rate, and no more than five minutes are kept.
func TestBurstIsFiveMinutes(t *testing.T) {
	t.Parallel()
	m := wall.New(start, wall.Throughput{}, wall.Capacity{Provisioned: wall.Throughput{Write: 200}, Burst: 5 * time.Minute})
	admitted, _ := drive(m, 24*time.Hour, 24*time.Hour+10*time.Second, 10_000, 2, named("k"))
	if n := sum(admitted); n < 30_000+1000-1 || n > 30_000+1000+1 {
		t.Errorf("%d writes admitted after a day of rest, want 30,000 of credit and 1,000 of the ten seconds", n)
	}
}

// The table's credit does not raise the limit of a partition.
func TestBurstStopsAtThePartition(t *testing.T) {
	t.Parallel()
	m := wall.New(start, aws, wall.Capacity{Provisioned: wall.Throughput{Read: 2, Write: 20_000}, Burst: 5 * time.Minute})
	admitted, refused := drive(m, time.Hour, time.Hour+10*time.Second, 1500, 2, named("k"))
	if n := sum(admitted); n > 11_001 {
		t.Errorf("%d writes admitted to one key in ten seconds, want 11,000", n)
	}
	if refused[wall.KeyRange] == 0 || refused[wall.Provisioned] > 0 {
		t.Errorf("refused by %v, want the key range alone", refused)
	}
}

func TestConfigure(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	writes := func(n int64) wall.Throughput { return wall.Throughput{Write: 2 * n} }
	onDemand := wall.Capacity{Initial: writes(4000)}
	for _, tt := range []struct {
		name   string
		before []wall.Capacity // one each minute
		then   wall.Capacity
		want   int // writes admitted in the second after the change
	}{
		{"provisioned: credit is kept", []wall.Capacity{{Provisioned: writes(100), Burst: 5 * minute}}, wall.Capacity{Provisioned: writes(50), Burst: 5 * minute}, 6100},
		{"provisioned: as far as it fits", []wall.Capacity{{Provisioned: writes(100), Burst: 5 * minute}}, wall.Capacity{Provisioned: writes(10), Burst: 5 * minute}, 3000},
		{"to provisioned: a second's worth", []wall.Capacity{onDemand}, wall.Capacity{Provisioned: writes(100), Burst: 5 * minute}, 100},
		{"to on-demand: at least as a new table", []wall.Capacity{{Provisioned: writes(100)}}, onDemand, 4000},
		{"to on-demand: as much as was provisioned", []wall.Capacity{{Provisioned: writes(7000)}}, onDemand, 7000},
		{"to on-demand: as the most that was", []wall.Capacity{{Provisioned: writes(7000)}, {Provisioned: writes(10)}}, onDemand, 7000},
		{"a quota without a ramp", []wall.Capacity{{}}, wall.Capacity{Quota: writes(500)}, 500},
		{"a quota below the ramp", []wall.Capacity{{Provisioned: writes(7000)}}, wall.Capacity{Initial: writes(4000), Quota: writes(5000)}, 5000},
		{"to no limit", []wall.Capacity{{Provisioned: writes(1)}}, wall.Capacity{}, 20_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, now := wall.New(start, wall.Throughput{}, tt.before[0]), start
			for _, c := range tt.before {
				m.Configure(now, c)
				now = now.Add(minute)
			}
			m.Configure(now, tt.then)
			n := 0
			for ; n < 20_000 && m.Check(now, wall.Write, named("k")) == wall.Admitted; n++ {
				m.Charge(now, wall.Write, named("k"), 2)
			}
			if n != tt.want {
				t.Errorf("%d writes at once, want %d", n, tt.want)
			}
		})
	}
}

// Setting the limits that a meter already has changes nothing.
func TestConfigureAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]wall.Capacity{
		"provisioned": {Provisioned: wall.Throughput{Write: 2}}, "on-demand": {Initial: wall.Throughput{Write: 2}},
	} {
		m := wall.New(start, wall.Throughput{}, c)
		m.Charge(start, wall.Write, named("k"), 2)
		m.Configure(start, c)
		if why := m.Check(start, wall.Write, named("k")); why == wall.Admitted {
			t.Errorf("%s: a used-up table admits after a change to the same", name)
		}
	}
}

func TestRampOfANewTable(t *testing.T) {
	t.Parallel()
	m := wall.New(start, aws, wall.Capacity{Initial: wall.Throughput{Read: 24_000, Write: 8000}})
	// 5,000 writes per second over many keys; each key would serve 1,000.
	refused := map[wall.Level]int{}
	admitted := 0
	for i := range 5000 * 60 {
		now := after(time.Duration(i) * time.Second / 5000)
		if why := m.Check(now, wall.Write, numbered(i%100)); why != wall.Admitted {
			refused[why]++
			continue
		}
		m.Charge(now, wall.Write, numbered(i%100), 2)
		admitted++
	}
	if admitted < 244_000-1 || admitted > 244_000+1 {
		t.Errorf("%d writes admitted in a minute, want 4,000 per second and as many at first", admitted)
	}
	if len(refused) != 1 || refused[wall.KeyRange] == 0 {
		t.Errorf("refused by %v, want the key range alone, which is what AWS says", refused)
	}
}

// A table's throughput doubles half an hour after a peak, and stays.
func TestRampDoubles(t *testing.T) {
	t.Parallel()
	const initial, quota = 40, 200
	m := wall.New(start, wall.Throughput{}, wall.Capacity{Initial: wall.Throughput{Write: initial}, Quota: wall.Throughput{Write: quota}})
	// serves returns how many requests of one half unit a second admits, and the limit that stops
	// the next.
	serves := func(at time.Duration) (int, wall.Level) {
		for n := 0; ; n++ {
			if why := m.Check(after(at), wall.Write, named("k")); why != wall.Admitted {
				return n, why
			}
			m.Charge(after(at), wall.Write, named("k"), 1)
		}
	}
	busy := func(from time.Duration, rate int) {
		drive(m, from, from+time.Minute, rate, 1, named("k"))
	}
	for _, tt := range []struct {
		at    time.Duration
		busy  int // the rate in the minute before; 0: idle
		serve int
		why   wall.Level
	}{
		{2 * time.Minute, 30, 40, wall.KeyRange},                             // served 1,800 in minute 1
		{32*time.Minute - 1, 0, 40, wall.KeyRange},                           // not previous yet
		{32*time.Minute + time.Second, 0, 60, wall.KeyRange},                 // double the 30 per second
		{40 * time.Hour, 0, 60, wall.KeyRange},                               // forever
		{41 * time.Hour, 50, 60, wall.KeyRange},                              // after a new peak in the minute before
		{41*time.Hour + 30*time.Minute + time.Second, 0, 100, wall.KeyRange}, // 30 minutes after that minute ended
		{50 * time.Hour, 90, 100, wall.KeyRange},
		{51 * time.Hour, 0, 180, wall.KeyRange},
		{60 * time.Hour, 150, 180, wall.KeyRange},
		{61 * time.Hour, 0, 200, wall.AccountLimit},
	} {
		if tt.busy > 0 {
			busy(tt.at-time.Minute, tt.busy)
			tt.at += time.Second // so that the bucket is full again
			if tt.at%time.Minute < time.Second {
				t.Fatal("not in the minute after")
			}
		}
		if n, why := serves(tt.at); n != tt.serve || why != tt.why {
			t.Errorf("at %v: serves %d (%v), want %d (%v)", tt.at, n, why, tt.serve, tt.why)
		}
	}
}

// After a silence, a table takes its last busy minute into account, and no minute too early.
func TestRampAfterSilence(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		silence time.Duration // before the busy instant, which is followed by silence until check
		check   time.Duration
		want    int
	}{
		{0, 31*time.Minute - time.Second, 40},
		{0, 31 * time.Minute, 40}, // the bucket had room for no more until now
		{0, 31*time.Minute + time.Second, 100},
		{0, 10 * time.Hour, 100},
		{10 * time.Hour, 29 * time.Minute, 40},
		{10 * time.Hour, 31*time.Minute + time.Second, 100},
		{10 * time.Hour, 10 * time.Hour, 100},
	} {
		m := wall.New(start, wall.Throughput{}, wall.Capacity{Initial: wall.Throughput{Write: 40}})
		m.Charge(after(tt.silence), wall.Write, named("k"), 50*60)
		n := 0
		for ; n < 1000 && m.Check(after(tt.silence+tt.check), wall.Write, named("k")) == wall.Admitted; n++ {
			m.Charge(after(tt.silence+tt.check), wall.Write, named("k"), 1)
		}
		if n != tt.want {
			t.Errorf("%v after a busy instant at %v: serves %d, want %d", tt.check, tt.silence, n, tt.want)
		}
	}
}

// rampOracle is the ramp as documented, computed from every charge ever made.
type rampOracle struct {
	initial, quota int64
	charges        []charge
}

type charge struct {
	at   time.Duration
	cost int64
}

// ceiling returns the limit in minute k, in half units per minute.
func (o *rampOracle) ceiling(k int) int64 {
	best := o.initial * 60
	for j := range max(0, k-30) {
		served := int64(0)
		for _, c := range o.charges {
			if int(c.at/time.Minute) == j {
				served += c.cost
			}
		}
		best = max(best, 2*served)
	}
	if o.quota > 0 {
		best = min(best, o.quota*60)
	}
	return best
}

// balance returns the balance at an instant, in half units.
func (o *rampOracle) balance(at time.Duration) *big.Rat {
	rat := big.NewRat
	b, t := rat(o.ceiling(0), 60), time.Duration(0)
	wait := func(until time.Duration) {
		for t < until {
			k := int(t / time.Minute)
			step := min(until, time.Duration(k+1)*time.Minute)
			rate := o.ceiling(k)
			b.Add(b, new(big.Rat).Mul(rat(rate, int64(time.Minute)), rat(int64(step-t), 1)))
			if depth := rat(rate, 60); b.Cmp(depth) > 0 {
				b = depth
			}
			t = step
		}
	}
	for _, c := range o.charges {
		wait(c.at)
		b.Sub(b, rat(c.cost, 1))
	}
	wait(at)
	return b
}

func TestRampAgainstOracle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := rampOracle{initial: rapid.Int64Range(1, 30).Draw(t, "initial"), quota: rapid.Int64Range(0, 200).Draw(t, "quota")}
		m := wall.New(start, wall.Throughput{}, wall.Capacity{Initial: wall.Throughput{Write: o.initial}, Quota: wall.Throughput{Write: o.quota}})
		pause := rapid.OneOf(
			rapid.Int64Range(0, int64(3*time.Second)), rapid.Int64Range(0, int64(3*time.Minute)),
			rapid.Just(int64(time.Minute)), rapid.Just(int64(30*time.Minute)), rapid.Int64Range(0, int64(35*time.Minute)),
		)
		now := time.Duration(0)
		for range rapid.IntRange(1, 25).Draw(t, "requests") {
			now += time.Duration(pause.Draw(t, "pause"))
			want := o.balance(now).Sign() > 0
			if got := m.Check(after(now), wall.Write, named("k")) == wall.Admitted; got != want {
				t.Fatalf("at %v: admitted %t, want %t (balance %v)", now, got, want, o.balance(now))
			}
			if want {
				cost := rapid.Int64Range(1, 120*o.initial).Draw(t, "cost")
				m.Charge(after(now), wall.Write, named("k"), cost)
				o.charges = append(o.charges, charge{now, cost})
			}
		}
	})
}
