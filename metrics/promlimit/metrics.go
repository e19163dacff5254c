package promlimit

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zeroae/zae-limiter-go/metrics/internal/labels"
)

// prefix begins the name of every metric.
const prefix = "zae_limiter_"

// durationBuckets are the upper bounds of the classic buckets of durations, in seconds.
// 1, 5, 10, 50, 100, 500 ms, 1, 5 and 10 s are those that OpenTelemetry recommends for
// db.client.operation.duration. 0.1 ms separates decisions from memory from those by the
// store. 2.5, 25 and 250 ms halve the widest of the others, as client_golang's
// [prometheus.DefBuckets] does. 5 s is also [limiter.DefaultTimeout].
var durationBuckets = []float64{.0001, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 10}

// shardBuckets are the numbers of shards that a bucket can have, up to
// [limiter.MaxShards].
var shardBuckets = []float64{1, 2, 4, 8, 16, 32}

// Parameters of native histograms: buckets that are at most a tenth wider than the one
// before, which client_golang calls a good trade-off, and at most 160 of them, as
// OpenTelemetry's exponential histograms have.
const (
	nativeFactor     = 1.1
	nativeMaxBuckets = 160
	nativeResetAfter = time.Hour
)

// A family describes one metric.
type family struct {
	Name, Type, Unit, Help string
	Labels                 []string
	buckets                []float64 // of a histogram
}

// families are all metrics, in the order of the documentation.
var families = []*family{
	decisions, refusals, taken, returned, reserved, reservedSettled, usedRatio, settlements, callErrors, callDuration,
	shards, operations, operationErrors, operationDuration, requests, units, capacity, rate,
	waiting, healed, braked, slotsHeld, slotsWaiting, slotLimits, slotRefusals, slotsLost,
	outages, away, degradedSpent, resent, sentOnce, reclaimed, lostReturned, lostKept, unreserved, takenForLost,
}

var (
	decisions = &family{
		Name: prefix + "decisions_total", Type: "counter", Labels: []string{"resource", "result", "source"},
		Help: "Acquires, waits and takes by result: admitted, refused, degraded (admitted without the store) or failed; and by what decided: store, memory, or shared (a write that another caller sent).",
	}
	refusals = &family{
		Name: prefix + "refusals_total", Type: "counter", Labels: []string{"resource", "limit", "bucket", "source", "mode"},
		Help: "Limits that refused an acquire, or in shadow would have, of the entity's own bucket or its parent's. Several limits may refuse one acquire.",
	}
	taken = &family{
		Name: prefix + "tokens_taken_total", Type: "counter", Unit: "tokens", Labels: []string{"resource", "limit"},
		Help: "Tokens that acquires, waits, takes and commits debited. A cascaded request counts once.",
	}
	returned = &family{
		Name: prefix + "tokens_returned_total", Type: "counter", Unit: "tokens", Labels: []string{"resource", "limit"},
		Help: "Tokens that commits, rollbacks and releases returned. A cascaded request counts once.",
	}
	reserved = &family{
		Name: prefix + "tokens_reserved_total", Type: "counter", Unit: "tokens", Labels: []string{"resource", "limit"},
		Help: "Tokens of leases that were written down, once for each lease. They are also tokens taken.",
	}
	reservedSettled = &family{
		Name: prefix + "tokens_reserved_settled_total", Type: "counter", Unit: "tokens", Labels: []string{"resource", "limit", "when"},
		Help: "Of these, the tokens of leases that were settled: in_time, or late, which is after the deadline. In the long run, the others are lost.",
	}
	usedRatio = &family{
		Name: prefix + "reservation_used_ratio", Type: "histogram", Labels: []string{"resource", "limit"},
		Help: "What a lease that was written down took in the end, by what it had reserved: 1 is an exact estimate.", buckets: labels.UsedRatios,
	}
	settlements = &family{
		Name: prefix + "settlements_total", Type: "counter", Labels: []string{"resource", "call", "result"},
		Help: "Commits, rollbacks and releases of open leases by result: completed or failed.",
	}
	callErrors = &family{
		Name: prefix + "errors_total", Type: "counter", Labels: []string{"resource", "call", "kind"},
		Help: "Calls that failed, and degraded acquires, by kind of error. A refusal is no error.",
	}
	callDuration = &family{
		Name: prefix + "call_duration_seconds", Type: "histogram", Unit: "seconds", Labels: []string{"resource", "call", "result"},
		Help: "Time that calls took.", buckets: durationBuckets,
	}
	shards = &family{
		Name: prefix + "bucket_shards", Type: "histogram", Labels: []string{"resource"},
		Help: "Number of shards of the bucket at each acquire that saw it.", buckets: shardBuckets,
	}
	operations = &family{
		Name: prefix + "store_operations_total", Type: "counter", Labels: []string{"resource", "operation", "result"},
		Help: "Operations of the store by result: done, refused (the state of the item refused the write) or failed.",
	}
	operationErrors = &family{
		Name: prefix + "store_errors_total", Type: "counter", Labels: []string{"resource", "operation", "kind"},
		Help: "Operations of the store that failed, by kind of error.",
	}
	operationDuration = &family{
		Name: prefix + "store_operation_duration_seconds", Type: "histogram", Unit: "seconds", Labels: []string{"operation"},
		Help: "Time that operations of the store took.", buckets: durationBuckets,
	}
	requests = &family{
		Name: prefix + "store_requests_total", Type: "counter", Labels: []string{"resource", "operation"},
		Help: "Requests that the store sent: round trips.",
	}
	units = &family{
		Name: prefix + "capacity_units_total", Type: "counter", Labels: []string{"resource", "kind"},
		Help: "Consumed read and write capacity units.",
	}
	capacity = &family{
		Name: prefix + "limit_capacity_tokens", Type: "gauge", Unit: "tokens", Labels: []string{"level", "resource", "limit"},
		Help: "Capacity of the limits configured for a resource or the system, as this process last read them.",
	}
	rate = &family{
		Name: prefix + "limit_rate_tokens_per_second", Type: "gauge", Unit: "tokens per second", Labels: []string{"level", "resource", "limit"},
		Help: "Tokens that these limits earn each second. A quota has no rate.",
	}
	waiting = &family{
		Name: prefix + "waiting_callers", Type: "gauge", Unit: "callers",
		Help: "Callers of Wait that wait now, in the limiters that Watch was told of.",
	}
	healed = &family{
		Name: prefix + "stamps_healed_total", Type: "counter",
		Help: "Stamps of items that lay ahead of any honest clock and were moved back, by these limiters.",
	}
	resent = &family{
		Name: prefix + "writes_resent_total", Type: "counter",
		Help: "Writes to buckets that these limiters sent again because an answer was lost.",
	}
	sentOnce = &family{
		Name: prefix + "writes_sent_once_total", Type: "counter",
		Help: "Writes to buckets that would not be sent again, because the item has no room for what that needs.",
	}
	reclaimed = &family{
		Name: prefix + "writes_reclaimed_total", Type: "counter",
		Help: "Writes that had landed although no answer came, and whose tokens were returned.",
	}
	lostReturned = &family{
		Name: prefix + "lost_returned_tokens_total", Type: "counter", Unit: "tokens",
		Help: "Tokens of lost processes that writes of these limiters gave back to limits which return them.",
	}
	lostKept = &family{
		Name: prefix + "lost_kept_tokens_total", Type: "counter", Unit: "tokens",
		Help: "Tokens that the same limits keep of the same acquires, by their percentages. Limits that return nothing are not counted.",
	}
	unreserved = &family{
		Name: prefix + "acquires_unreserved_total", Type: "counter",
		Help: "Acquires of limits that return what is lost, of which nothing would go back: the bucket item has no room, or several shards served them.",
	}
	takenForLost = &family{
		Name: prefix + "buckets_taken_for_lost_total", Type: "counter",
		Help: "Buckets of which these limiters were taken for lost while they had leases, because they could not write for 15 minutes.",
	}
	braked = &family{
		Name: prefix + "requests_braked_total", Type: "counter",
		Help: "Requests that these limiters did not send because the table had just throttled the only shards that could serve them.",
	}
)

var (
	slotsHeld = &family{
		Name: prefix + "slots_held", Type: "gauge", Unit: "slots", Labels: []string{"resource", "limit"},
		Help: "Slots that requests of these limiters hold now, of all entities. The sum over processes is what is held.",
	}
	slotsWaiting = &family{
		Name: prefix + "slots_waiting", Type: "gauge", Unit: "slots", Labels: []string{"resource", "limit"},
		Help: "Slots that callers of these limiters wait for now.",
	}
	slotLimits = &family{
		Name: prefix + "slot_limit_slots", Type: "gauge", Unit: "slots", Labels: []string{"level", "resource", "limit"},
		Help: "Slots of each entity, as configured for a resource or the system, as this process last read them.",
	}
	slotRefusals = &family{
		Name: prefix + "slot_refusals_total", Type: "counter", Labels: []string{"resource", "limit", "bucket"},
		Help: "Acquires and waits that did not get their slots, of the entity's own or its parent's.",
	}
	slotsLost = &family{
		Name: prefix + "slots_lost_total", Type: "counter", Unit: "slots",
		Help: "Slots that these limiters could not renew in time, so that others may have held them, too.",
	}
	outages = &family{
		Name: prefix + "outages_total", Type: "counter",
		Help: "Times that these limiters found the store to be away, of those whose requests share.",
	}
	away = &family{
		Name: prefix + "store_away", Type: "gauge", Unit: "limiters",
		Help: "Limiters for which the store is away now, so that their requests get shares.",
	}
	degradedSpent = &family{
		Name: prefix + "degraded_spent_tokens_total", Type: "counter", Unit: "tokens",
		Help: "Tokens that outages took of shares, and that were debited when the store was back. A parent counts for itself.",
	}
)

func (f *family) counter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.Name, Help: f.Help}, f.Labels)
}

func (f *family) desc() *prometheus.Desc {
	return prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
}

func (f *family) histogram() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: f.Name, Help: f.Help, Buckets: f.buckets,
		NativeHistogramBucketFactor: nativeFactor, NativeHistogramMaxBucketNumber: nativeMaxBuckets, NativeHistogramMinResetDuration: nativeResetAfter,
	}, f.Labels)
}
