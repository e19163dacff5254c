package estimate

import (
	"time"

	"github.com/zeroae/zae-limiter-go/loadtest/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

// drive makes the buckets, and then runs the warm-up and all phases. It returns what the
// set-up, all of the load, and the measured part of it cost. done is the part of the load
// that was simulated before the budget of operations was spent, 1 if all of it was.
func (s *simulation) drive() (setUp, load, measured book, done float64) {
	var before, from book
	began := time.Duration(0)
	s.prime(func() {
		before, began = s.books, s.now
		s.start = s.now + s.p.WarmUp
		s.after(s.p.WarmUp, func() { from = s.books })
		for c := range s.p.Classes {
			s.class(c)
		}
	})
	stopped := false
	s.run(func() bool {
		stopped = stopped || s.operations >= s.o.MaxOperations
		return stopped
	})
	done = 1
	if stopped {
		done = float64(s.now-began) / float64(s.p.WarmUp+s.p.Duration())
	}
	return before, s.books.since(&before), s.books.since(&from), done
}

// A first is the request that makes a bucket for a process.
type first struct {
	p       *process
	key     bucketKey
	amounts []int64
}

// prime takes once from each bucket that a class uses, in each process, some at a time. The
// first process takes all from a bucket that is to be exhausted.
func (s *simulation) prime(then func()) {
	var work [][]first
	for c := range s.p.Classes {
		for n, p := range s.crews[c] {
			work = append(work, s.firsts(c, n, p))
		}
	}
	var next func(i int)
	next = func(i int) {
		if i == len(work) {
			then()
			return
		}
		s.primeAll(work[i], func() { next(i + 1) })
	}
	next(0)
}

func (s *simulation) primeAll(work []first, then func()) {
	const atATime = 16
	next, left := 0, atATime
	var one func()
	one = func() {
		if next == len(work) {
			if left--; left == 0 {
				then()
			}
			return
		}
		f := &work[next]
		next++
		if s.side == scenario.Bare {
			s.bare(f.key, putWrites, one)
			return
		}
		s.acquire(f.p, s.bucket(f.key), f.amounts, func(bool) { s.after(0, one) })
	}
	for range atATime {
		s.after(0, one)
	}
}

// firsts are the first requests of a process of a class.
func (s *simulation) firsts(class, number int, p *process) (work []first) {
	c := &s.p.Classes[class]
	for _, share := range c.From {
		pop := &s.p.Populations[share.Population]
		if s.o.Cold && !pop.Exhausted || s.side == scenario.Bare && number > 0 {
			continue
		}
		for i := range pop.Count {
			for _, res := range c.Resources {
				key := bucketKey{s.p.First[share.Population] + i, res.Index}
				if p.known[key] != nil {
					continue
				}
				it := s.bucket(key)
				p.knows(it)
				work = append(work, first{p, key, it.first(pop.Exhausted && number == 0)})
			}
		}
	}
	return work
}

// first are the amounts of the request that makes the bucket: a token of each limit, or all.
func (it *item) first(all bool) []int64 {
	amounts := make([]int64, len(it.limits))
	for j := range amounts {
		if amounts[j] = min(store.Milli, it.limits[j].Capacity); all {
			amounts[j] = it.limits[j].Capacity
		}
	}
	return amounts
}

// bare is one write of the side without the limiter.
func (s *simulation) bare(key bucketKey, writes float64, then func()) {
	s.request(causeAdmitted, writes*s.bucket(key).units, 0, then)
}

// putWrites and updateWrites are the write units of an item of the bare side, for each that
// the item costs: an index has a copy of it.
const putWrites, updateWrites = 4, 2

// at is the instant from the start of the measurement.
func (s *simulation) at() time.Duration { return s.now - s.start }

// isActive reports whether a class is active at an instant. If it is not, next is when the
// next phase begins.
func (s *simulation) isActive(class int, at time.Duration) (active bool, next time.Duration) {
	end := time.Duration(0)
	for i, ph := range s.p.Phases {
		if end += ph.For; at < end {
			return s.p.Classes[class].Active(i), end
		}
	}
	return false, end
}

// class runs a class.
func (s *simulation) class(c int) {
	sched := s.p.Schedule(c, -s.p.WarmUp)
	if s.p.Classes[c].Arrival.Open() {
		s.open(c, sched)
		return
	}
	s.users(c, sched)
}

// open begins the operations of a rate when they are due, and when a client is free. Limiters
// take turns.
func (s *simulation) open(c int, sched *scenario.Schedule) {
	began, free := s.now, s.p.Classes[c].Arrival.Clients
	var n, waiting int64 // operations begun or waiting, and those that wait
	var begin func()
	begin = func() {
		free--
		waiting--
		number := n - waiting - 1
		limiter := int(number)
		if s.scatters {
			limiter = s.dice.below(len(s.crews[c]))
		}
		s.operate(c, limiter, number, func(time.Duration) {
			if free++; waiting > 0 {
				begin()
			}
		})
	}
	var next func()
	next = func() {
		due, ok := sched.Next()
		if !ok {
			return
		}
		s.after(began+due-s.now, func() {
			if active, _ := s.isActive(c, s.at()); active {
				n++
				if waiting++; free > 0 {
					begin()
				}
			}
			next()
		})
	}
	next()
}

// users starts and stops users as the schedule does.
func (s *simulation) users(c int, sched *scenario.Schedule) {
	began, n := s.now, int64(0)
	running := map[int]bool{}
	var act func(user int)
	act = func(user int) {
		if at := s.at(); at >= s.p.Duration() || user >= sched.Users(s.now-began) {
			running[user] = false
			return
		}
		if active, next := s.isActive(c, s.at()); !active {
			s.after(s.start+next-s.now, func() { act(user) })
			return
		}
		n++
		from := s.now
		s.operate(c, user, n-1, func(think time.Duration) {
			if s.now == from && think == 0 {
				think = FromMemory
			}
			s.after(think, func() { act(user) })
		})
	}
	var ensure func(at time.Duration)
	ensure = func(at time.Duration) {
		for user := range sched.Users(at) {
			if !running[user] {
				running[user] = true
				act(user)
			}
		}
		if next, ok := sched.NextUsers(at); ok {
			s.after(began+next-s.now, func() { ensure(next) })
		}
	}
	ensure(0)
}

// operate carries out an operation. done gets the time to think.
func (s *simulation) operate(c, client int, n int64, done func(think time.Duration)) {
	var op scenario.Op
	s.p.Op(c, n, s.at(), &op)
	s.operations++
	key, end := bucketKey{op.Entity, op.Resource}, func() { done(op.Think) }
	if s.side == scenario.Bare {
		s.bare(key, updateWrites, end)
		return
	}
	p, it := s.crews[c][client%len(s.crews[c])], s.bucket(key)
	switch op.Kind {
	case scenario.Acquire:
		s.acquireAndSettle(p, it, &op, end)
	case scenario.Available:
		s.available(p, it, end)
	case scenario.SetLimits:
		s.setLimits(it, end)
	case scenario.GetChildren:
		s.request(causeCalls, 0, childReads, end)
	case scenario.SetResourceDefaults: // what is set already is only entered in the registry again
		s.request(causeCalls, 0, 1, func() { s.request(causeCalls, 1, 0, end) })
	case scenario.GetLimits, scenario.GetEntity, scenario.GetResourceDefaults, scenario.GetSystemDefaults, scenario.ListResources:
		s.request(causeCalls, 0, 1, end)
	}
}

// acquireAndSettle acquires, holds the lease, and adjusts it to what was used.
func (s *simulation) acquireAndSettle(p *process, it *item, op *scenario.Op, end func()) {
	amounts, used := make([]int64, len(op.Consume)), make([]int64, len(op.Consume))
	for i, n := range op.Consume {
		amounts[i], used[i] = n*store.Milli, (op.Settle[i]-n)*store.Milli
	}
	adjusts, hold := op.Adjusts(), op.Hold
	s.acquire(p, it, amounts, func(granted bool) {
		if !granted {
			s.refused++
			end()
			return
		}
		s.after(hold, func() {
			if !adjusts {
				end()
				return
			}
			s.settle(p, it, used, end)
		})
	})
}

// settle adjusts the bucket of an entity, and its parent's at the same time.
func (s *simulation) settle(p *process, it *item, used []int64, end func()) {
	left := 0
	one := func(it *item) {
		left++
		k := p.knows(it)
		s.adjust(&claim{k: k, amounts: used, shard: s.dice.below(len(it.shards)), cause: causeAdjusted, done: func(bool) {
			if left--; left == 0 {
				end()
			}
		}})
	}
	if one(it); it.parent != nil {
		one(it.parent)
	}
}
