package scenario

import (
	"math"
	"time"
)

// A crowd is the number of users from one instant on: it changes one by one, at even
// distances, from one number to another.
type crowd struct {
	start    time.Duration
	from, to int
	each     float64 // nanoseconds between changes; 0 is all at once
}

// crowds returns the crowds of stages of which the first begins at start.
func crowds(stages []Stage, start time.Duration) []crowd {
	all := make([]crowd, len(stages))
	users := 0
	for i, s := range stages {
		all[i] = crowd{start: start, from: users, to: s.Users}
		if s.Spawn > 0 {
			all[i].each = float64(time.Second) / s.Spawn
		}
		start += s.For
		users = all[i].at(start - 1) // the last instant of the stage
	}
	return all
}

// steps is the number of changes from the start, where the first one is, until an instant.
func (c *crowd) steps(at time.Duration) int {
	all := max(c.to-c.from, c.from-c.to)
	if c.each == 0 {
		return all
	}
	return int(min(math.Floor(float64(at-c.start)/c.each)+1, float64(all)))
}

func (c *crowd) at(at time.Duration) int {
	if c.to < c.from {
		return c.from - c.steps(at)
	}
	return c.from + c.steps(at)
}

// next is the instant after at of the next change; false if there is none.
func (c *crowd) next(at time.Duration) (time.Duration, bool) {
	done := c.steps(at)
	if done == max(c.to-c.from, c.from-c.to) {
		return 0, false
	}
	when := c.start + time.Duration(math.Ceil(float64(done)*c.each))
	return max(when, at+1), true
}

// Users is the number of users at an instant; 0 for an open class. Before the class begins
// it is the number at the beginning.
func (s *Schedule) Users(at time.Duration) int {
	if len(s.users) == 0 {
		return 0
	}
	at = max(at, s.users[0].start)
	return s.users[s.crowdAt(at)].at(at)
}

// NextUsers is the first instant after another at which the number of users may be a
// different one; false if there is none before the end.
func (s *Schedule) NextUsers(at time.Duration) (time.Duration, bool) {
	if len(s.users) == 0 {
		return 0, false
	}
	at = max(at, s.users[0].start)
	i := s.crowdAt(at)
	when, ok := s.users[i].next(at)
	if i+1 < len(s.users) && (!ok || when >= s.users[i+1].start) {
		when, ok = s.users[i+1].start, true
	}
	return when, ok && when < s.end
}

// crowdAt is the index of the crowd at an instant.
func (s *Schedule) crowdAt(at time.Duration) int {
	i := 0
	for i+1 < len(s.users) && s.users[i+1].start <= at {
		i++
	}
	return i
}
