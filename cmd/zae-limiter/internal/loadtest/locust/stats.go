package locust

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// An entry is the statistics of requests with one method and one name, since the last
// report. Its fields are those that Locust expects. Times of requests are in milliseconds,
// and instants are seconds since 1970.
type entry struct {
	Name         string          `msgpack:"name"`
	Method       string          `msgpack:"method"`
	Last         *float64        `msgpack:"last_request_timestamp"`
	Start        float64         `msgpack:"start_time"`
	Requests     int64           `msgpack:"num_requests"` // failures included
	NoneRequests int64           `msgpack:"num_none_requests"`
	Failures     int64           `msgpack:"num_failures"`
	Total        float64         `msgpack:"total_response_time"`
	Max          float64         `msgpack:"max_response_time"`
	Min          *float64        `msgpack:"min_response_time"`
	Size         int64           `msgpack:"total_content_length"`
	Times        map[int64]int64 `msgpack:"response_times"` // requests by rounded time
	PerSecond    map[int64]int64 `msgpack:"num_reqs_per_sec"`
	Failed       map[int64]int64 `msgpack:"num_fail_per_sec"`
}

func newEntry(name, method string, now time.Time) *entry {
	return &entry{
		Name: name, Method: method, Start: unix(now),
		Times: map[int64]int64{}, PerSecond: map[int64]int64{}, Failed: map[int64]int64{},
	}
}

func (e *entry) add(event *Event, now time.Time) {
	at, took := unix(now), event.Took.Seconds()*1000
	e.Requests++
	e.PerSecond[now.Unix()]++
	e.Last = &at
	e.Total += took
	e.Max = max(e.Max, took)
	if e.Min == nil || took < *e.Min {
		e.Min = &took
	}
	e.Times[rounded(took)]++
	e.Size += event.Size
	if event.Err != nil {
		e.Failures++
		e.Failed[now.Unix()]++
	}
}

// extend adds the requests of another entry, which were earlier.
func (e *entry) extend(earlier *entry) {
	e.Start = min(e.Start, earlier.Start)
	e.Requests += earlier.Requests
	e.Failures += earlier.Failures
	e.Total += earlier.Total
	e.Max = max(e.Max, earlier.Max)
	if e.Min == nil || earlier.Min != nil && *earlier.Min < *e.Min {
		e.Min = earlier.Min
	}
	if e.Last == nil {
		e.Last = earlier.Last
	}
	e.Size += earlier.Size
	for _, of := range [...]struct{ to, from map[int64]int64 }{
		{e.Times, earlier.Times}, {e.PerSecond, earlier.PerSecond}, {e.Failed, earlier.Failed},
	} {
		for key, n := range of.from {
			of.to[key] += n
		}
	}
}

// rounded rounds milliseconds to two digits, or to whole ones below 100, as Locust does:
// halves go to the even neighbour.
func rounded(ms float64) int64 {
	unit := 1.0
	for bound := 100.0; unit < 1000 && ms >= bound; bound *= 10 {
		unit *= 10
	}
	return int64(math.RoundToEven(ms/unit) * unit)
}

// unix is an instant as Locust writes it.
func unix(t time.Time) float64 {
	return float64(t.Unix()) + float64(t.Nanosecond())/float64(time.Second)
}

// A failure counts the failed requests with one method, name and text.
type failure struct {
	Name        string  `msgpack:"name"`
	Method      string  `msgpack:"method"`
	Error       string  `msgpack:"error"`
	Occurrences int64   `msgpack:"occurrences"`
	First       float64 `msgpack:"first_seen"`
	Last        float64 `msgpack:"last_seen"`
}

// key is what Locust adds up failures of several workers by. It is the key of a worker in
// Python, unless Python would escape a character of the text.
func (f *failure) key() string {
	sum := sha256.Sum256([]byte(f.Method + "." + f.Name + ".'" + f.Error + "'"))
	return hex.EncodeToString(sum[:])
}

// A report is what is sent to the master at once.
type report struct {
	Stats        []*entry            `msgpack:"stats"`
	Total        *entry              `msgpack:"stats_total"`
	Errors       map[string]*failure `msgpack:"errors"`
	ClassesCount map[string]int64    `msgpack:"user_classes_count"`
	UserCount    int64               `msgpack:"user_count"`
}

// A Total counts the requests with one method and one name since the last test began.
type Total struct {
	Method   string `json:"method"`   // kind of the request
	Name     string `json:"name"`     // name of the request
	Requests int64  `json:"requests"` // failures included
	Failures int64  `json:"failures"` // requests that failed
}

// maxErrors bounds the texts of failures in one report. Further ones are counted under one
// text, for each method and name.
const maxErrors = 200

const otherErrors = "other errors"

type key struct{ method, name string }

// stats are the statistics of a worker. They are safe for concurrent use.
type stats struct {
	mu     sync.Mutex
	since  report // the last report taken
	byKey  map[key]*entry
	totals map[key]*Total
}

func newStats(now time.Time) *stats {
	s := &stats{}
	s.clear(now)
	return s
}

// clear forgets everything, as a new test does.
func (s *stats) clear(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.totals = map[key]*Total{}
	s.resetLocked(now)
}

func (s *stats) resetLocked(now time.Time) {
	s.byKey = map[key]*entry{}
	s.since = report{Total: newEntry("Aggregated", "", now), Errors: map[string]*failure{}}
}

func (s *stats) add(event *Event, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{event.Method, event.Name}
	s.entryLocked(k, now).add(event, now)
	s.since.Total.add(event, now)
	total := s.totals[k]
	if total == nil {
		total = &Total{Method: k.method, Name: k.name}
		s.totals[k] = total
	}
	total.Requests++
	if event.Err != nil {
		total.Failures++
		s.failLocked(failure{
			Name: k.name, Method: k.method, Error: event.Err.Error(), Occurrences: 1, First: unix(now), Last: unix(now),
		})
	}
}

func (s *stats) entryLocked(k key, now time.Time) *entry {
	e := s.byKey[k]
	if e == nil {
		e = newEntry(k.name, k.method, now)
		s.byKey[k], s.since.Stats = e, append(s.since.Stats, e)
	}
	return e
}

func (s *stats) failLocked(f failure) {
	key := f.key()
	known := s.since.Errors[key]
	if known == nil && len(s.since.Errors) >= maxErrors {
		f.Error = otherErrors
		key = f.key()
		known = s.since.Errors[key]
	}
	if known == nil {
		s.since.Errors[key] = &f
		return
	}
	known.Occurrences += f.Occurrences
	known.First, known.Last = min(known.First, f.First), max(known.Last, f.Last)
}

// take returns what happened since the last time, and begins anew.
func (s *stats) take(now time.Time) report {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.since
	if taken.Stats == nil {
		taken.Stats = []*entry{} // Locust needs a list
	}
	s.resetLocked(now)
	return taken
}

// restore adds a report again that could not be sent.
func (s *stats) restore(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range r.Stats {
		k := key{e.Method, e.Name}
		if now := s.byKey[k]; now != nil {
			now.extend(e)
		} else {
			s.byKey[k], s.since.Stats = e, append(s.since.Stats, e)
		}
	}
	s.since.Total.extend(r.Total)
	for _, f := range r.Errors {
		s.failLocked(*f)
	}
}

// sums returns the counts since the last test began, in order.
func (s *stats) sums() []Total {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Total, 0, len(s.totals))
	for t := range maps.Values(s.totals) {
		all = append(all, *t)
	}
	slices.SortFunc(all, func(a, b Total) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Method, b.Method))
	})
	return all
}
