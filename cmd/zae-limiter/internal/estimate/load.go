package estimate

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Load is what a limiter is asked. The zero value of a field is its default. Shares are
// from 0 to 1.
type Load struct {
	Rate      float64 // requests a second, of all processes together; required
	Processes int     // that use each bucket; default 1
	Buckets   int     // entities times resources in use; default 1000
	Hot       float64 // share of the requests that the busiest bucket gets; default 1/Buckets

	Cascade float64 // share of the requests that cascade to a parent
	Parents int     // buckets of parents; default Buckets/10, at least 1

	Refused float64 // share of the requests that are refused
	// RefusedOf is the share that is refused of the requests to the buckets that refuse
	// any. Default 0.5.
	RefusedOf float64
	// Used is the share of its limits that any other bucket uses. It matters only with
	// several processes. Default 0.1.
	Used float64
	// Adjusted is the share of the admitted requests whose commit adjusts.
	Adjusted float64

	Limits     int     // of a bucket; default 2
	ItemBytes  int     // size of a bucket item; default from Limits, with short names
	NewBuckets float64 // buckets that are used for the first time, a second

	Latency time.Duration // of a write; default 5 ms
	// ConfigTTL is the limiter's time to live of configuration; default a minute.
	ConfigTTL time.Duration

	// Aggregator means that an aggregator reads the table's stream.
	Aggregator bool
	// Retention is how long usage is kept; default 90 days.
	Retention time.Duration
	// Function are the assumptions on the aggregator's function.
	Function Function

	busy struct{ hot, each, limited, parent busy } // what the buckets of each kind cost
}

// Function describes an aggregator's function. Its figures are assumptions: they were not
// measured on AWS.
type Function struct {
	BatchRecords int           // records of a call, at most; up to 10,000, default 100
	BatchWindow  time.Duration // that a call waits for its records; up to 5 min, default 5 s
	Memory       int           // MB; 128 to 10,240, default 256
	Duration     time.Duration // of a call; up to 15 min, default 100 ms
	LogBytes     int           // that a call logs; default 500
}

// fill fills in the defaults.
func (l *Load) fill() {
	l.Processes = or(l.Processes, 1)
	l.Buckets = or(l.Buckets, 1000)
	l.Hot = or(l.Hot, 1/float64(max(1, l.Buckets)))
	const children = 10
	l.Parents = or(l.Parents, max(1, l.Buckets/children))
	l.RefusedOf = or(l.RefusedOf, max(0.5, l.Refused))
	l.Used = or(l.Used, 0.1)
	l.Limits = or(l.Limits, 2)
	l.ItemBytes = or(l.ItemBytes, itemBytes(min(max(l.Limits, 0), store.MaxLimits))) // validate names a wrong number
	l.Latency = or(l.Latency, 5*time.Millisecond)
	l.ConfigTTL = or(l.ConfigTTL, time.Minute)
	l.Retention = or(l.Retention, 90*24*time.Hour)
	f := &l.Function
	f.BatchRecords = or(f.BatchRecords, 100)
	f.BatchWindow = or(f.BatchWindow, 5*time.Second)
	f.Memory = or(f.Memory, 256)
	f.Duration = or(f.Duration, 100*time.Millisecond)
	f.LogBytes = or(f.LogBytes, 500)
}

func or[T comparable](v, standard T) T {
	var zero T
	if v == zero {
		return standard
	}
	return v
}

// validate reports the first field that is out of bounds, as a [*store.ValidationError].
func (l *Load) validate() error {
	if !(l.Rate > 0) || math.IsInf(l.Rate, 0) {
		return invalid("rate", l.Rate, "give more than 0 requests a second")
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"hot", l.Hot},
		{"cascade", l.Cascade},
		{"refused", l.Refused},
		{"refused of", l.RefusedOf},
		{"used", l.Used},
		{"adjusted", l.Adjusted},
	} {
		if !(f.value >= 0 && f.value <= 1) {
			return invalid(f.name, f.value, "give a share from 0 to 1")
		}
	}
	if err := l.validateNumbers(); err != nil {
		return err
	}
	switch {
	case !(l.NewBuckets >= 0 && l.NewBuckets <= l.Rate):
		return invalid("new buckets", l.NewBuckets, "give from 0 to the rate, a second")
	case l.Refused > l.RefusedOf:
		return invalid("refused of", l.RefusedOf, "give at least the share of all requests that is refused")
	}
	for _, f := range []struct {
		name        string
		value, most time.Duration
	}{
		{"latency", l.Latency, maxLatency},
		{"config TTL", l.ConfigTTL, math.MaxInt64},
		{"retention", l.Retention, math.MaxInt64},
		{"batch window", l.Function.BatchWindow, maxBatchWindow},
		{"duration", l.Function.Duration, maxFunctionDuration},
	} {
		switch {
		case f.value <= 0:
			return &store.ValidationError{Field: f.name, Value: f.value.String(), Reason: "give more than 0"}
		case f.value > f.most:
			return &store.ValidationError{Field: f.name, Value: f.value.String(), Reason: fmt.Sprintf("give at most %v", f.most)}
		}
	}
	return nil
}

const kilobyte = 1024

// Bounds of DynamoDB, of AWS Lambda and of this package.
const (
	maxLatency           = time.Second // beyond it, calls of a store run into their time-outs
	maxItemBytes         = 400 * kilobyte
	maxBatchRecords      = 10_000
	maxBatchWindow       = 5 * time.Minute
	minMemory, maxMemory = 128, 10_240 // MB
	maxFunctionDuration  = 15 * time.Minute
)

func (l *Load) validateNumbers() error {
	for _, f := range []struct {
		name        string
		value       int
		least, most int
	}{
		{"processes", l.Processes, 1, math.MaxInt},
		{"buckets", l.Buckets, 1, math.MaxInt},
		{"parents", l.Parents, 1, math.MaxInt},
		{"limits", l.Limits, 1, store.MaxLimits},
		{"item bytes", l.ItemBytes, 1, maxItemBytes},
		{"batch records", l.Function.BatchRecords, 1, maxBatchRecords},
		{"memory", l.Function.Memory, minMemory, maxMemory},
		{"log bytes", l.Function.LogBytes, 1, math.MaxInt},
	} {
		switch {
		case f.value >= f.least && f.value <= f.most:
		case f.most == math.MaxInt:
			return invalid(f.name, float64(f.value), "give 1 or more")
		default:
			return invalid(f.name, float64(f.value), fmt.Sprintf("give from %d to %d", f.least, f.most))
		}
	}
	return nil
}

func invalid(field string, value float64, reason string) error {
	return &store.ValidationError{Field: field, Value: strconv.FormatFloat(value, 'g', -1, 64), Reason: reason}
}
