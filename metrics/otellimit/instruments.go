package otellimit

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/metrics/internal/labels"
)

// durationBounds are the bounds that the semantic conventions recommend for
// db.client.operation.duration, in seconds, after 0.1 ms: decisions from memory are
// faster.
var durationBounds = []float64{.0001, .001, .005, .01, .05, .1, .5, 1, 5, 10}

// shardBounds are the numbers of shards that a bucket can have, up to
// [limiter.MaxShards].
var shardBounds = []float64{1, 2, 4, 8, 16, 32}

// An instrument describes a metric, for the documentation.
type instrument struct {
	Name, Kind, Unit, Help string
	Attributes             []attribute.Key
}

var (
	decisions = &instrument{
		"zae_limiter.decisions", "counter", "{decision}",
		"Acquires, waits and takes by result, and by what decided.",
		[]attribute.Key{ResourceKey, ResultKey, SourceKey},
	}
	refusals = &instrument{
		"zae_limiter.refusals", "counter", "{refusal}",
		"Limits that refused an acquire, or in shadow would have. Several limits may refuse one acquire.",
		[]attribute.Key{ResourceKey, LimitKey, BucketKey, SourceKey, ModeKey},
	}
	taken = &instrument{
		"zae_limiter.tokens.taken", "counter", "{token}",
		"Tokens that acquires, waits, takes and commits debited. A cascaded request counts once.",
		[]attribute.Key{ResourceKey, LimitKey},
	}
	returned = &instrument{
		"zae_limiter.tokens.returned", "counter", "{token}",
		"Tokens that commits, rollbacks and releases returned. A cascaded request counts once.",
		[]attribute.Key{ResourceKey, LimitKey},
	}
	reserved = &instrument{
		"zae_limiter.tokens.reserved", "counter", "{token}",
		"Tokens of leases that were written down, once for each lease. They are also tokens taken.",
		[]attribute.Key{ResourceKey, LimitKey},
	}
	reservedSettled = &instrument{
		"zae_limiter.tokens.reserved.settled", "counter", "{token}",
		"Of these, the tokens of leases that were settled: in_time, or late, which is after the deadline. In the long run, the others are lost.",
		[]attribute.Key{ResourceKey, LimitKey, WhenKey},
	}
	usedRatio = &instrument{
		"zae_limiter.reservation.used_ratio", "histogram", "1",
		"What a lease that was written down took in the end, by what it had reserved: 1 is an exact estimate.",
		[]attribute.Key{ResourceKey, LimitKey},
	}
	callDuration = &instrument{
		"zae_limiter.call.duration", "histogram", "s",
		"Time that calls took. error.type is absent unless the call failed or was degraded.",
		[]attribute.Key{ResourceKey, CallKey, ResultKey, semconv.ErrorTypeKey},
	}
	shards = &instrument{
		"zae_limiter.bucket.shards", "histogram", "{shard}",
		"Number of shards of the bucket at each acquire that saw it.",
		[]attribute.Key{ResourceKey},
	}
	operationDuration = &instrument{
		"db.client.operation.duration", "histogram", "s",
		"Time that operations of the store took. error.type is absent unless the operation failed.",
		[]attribute.Key{semconv.DBSystemNameKey, semconv.DBOperationNameKey, semconv.DBCollectionNameKey, OperationKey, ResultKey, semconv.ErrorTypeKey},
	}
	requests = &instrument{
		"zae_limiter.store.requests", "counter", "{request}",
		"Requests that the store sent: round trips.",
		[]attribute.Key{ResourceKey, OperationKey},
	}
	units = &instrument{
		"zae_limiter.capacity_units", "counter", "{unit}",
		"Consumed read and write capacity units.",
		[]attribute.Key{ResourceKey, KindKey},
	}
	capacity = &instrument{
		"zae_limiter.limit.capacity", "gauge", "{token}",
		"Capacity of the limits configured for a resource or the system, as this process last read them.",
		[]attribute.Key{LevelKey, ResourceKey, LimitKey},
	}
	rate = &instrument{
		"zae_limiter.limit.rate", "gauge", "{token}/s",
		"Tokens that these limits earn each second. A quota has no rate.",
		[]attribute.Key{LevelKey, ResourceKey, LimitKey},
	}
	waiting = &instrument{
		"zae_limiter.waiting", "gauge", "{caller}",
		"Callers of Wait that wait now, in the limiters that Watch was told of.", nil,
	}
	healed = &instrument{
		"zae_limiter.stamps.healed", "counter", "{stamp}",
		"Stamps of items that lay ahead of any honest clock and were moved back, by these limiters.", nil,
	}
	resent = &instrument{
		"zae_limiter.writes.resent", "counter", "{write}",
		"Writes to buckets that these limiters sent again because an answer was lost.", nil,
	}
	sentOnce = &instrument{
		"zae_limiter.writes.sent_once", "counter", "{write}",
		"Writes to buckets that would not be sent again, because the item has no room for what that needs.", nil,
	}
	reclaimed = &instrument{
		"zae_limiter.writes.reclaimed", "counter", "{write}",
		"Writes that had landed although no answer came, and whose tokens were returned.", nil,
	}
	lostReturned = &instrument{
		"zae_limiter.lost_returned.tokens", "counter", "{token}",
		"Tokens of lost processes that writes of these limiters gave back to limits which return them.", nil,
	}
	lostKept = &instrument{
		"zae_limiter.lost_kept.tokens", "counter", "{token}",
		"Tokens that the same limits keep of the same acquires, by their percentages. Limits that return nothing are not counted.", nil,
	}
	unreserved = &instrument{
		"zae_limiter.acquires.unreserved", "counter", "{acquire}",
		"Acquires of limits that return what is lost, of which nothing would go back: the bucket item has no room, or several shards served them.", nil,
	}
	takenForLost = &instrument{
		"zae_limiter.buckets.taken_for_lost", "counter", "{bucket}",
		"Buckets of which these limiters were taken for lost while they had leases, because they could not write for 15 minutes.", nil,
	}
	braked = &instrument{
		"zae_limiter.requests.braked", "counter", "{request}",
		"Requests that these limiters did not send because the table had just throttled the only shards that could serve them.", nil,
	}
)

var (
	slotsHeld = &instrument{
		"zae_limiter.slots.held", "gauge", "{slot}",
		"Slots that requests of these limiters hold now, of all entities. The sum over processes is what is held.",
		[]attribute.Key{ResourceKey, LimitKey},
	}
	slotsWaiting = &instrument{
		"zae_limiter.slots.waiting", "gauge", "{slot}",
		"Slots that callers of these limiters wait for now.",
		[]attribute.Key{ResourceKey, LimitKey},
	}
	slotLimits = &instrument{
		"zae_limiter.slot_limit.slots", "gauge", "{slot}",
		"Slots of each entity, as configured for a resource or the system, as this process last read them.",
		[]attribute.Key{LevelKey, ResourceKey, LimitKey},
	}
	slotRefusals = &instrument{
		"zae_limiter.slot_refusals", "counter", "{refusal}",
		"Acquires and waits that did not get their slots, of the entity's own or its parent's.",
		[]attribute.Key{ResourceKey, LimitKey, BucketKey},
	}
	slotsLost = &instrument{
		"zae_limiter.slots.lost", "counter", "{slot}",
		"Slots that these limiters could not renew in time, so that others may have held them, too.", nil,
	}
	outages = &instrument{
		"zae_limiter.outages", "counter", "{outage}",
		"Times that these limiters found the store to be away, of those whose requests share.", nil,
	}
	away = &instrument{
		"zae_limiter.store.away", "gauge", "{limiter}",
		"Limiters for which the store is away now, so that their requests get shares.", nil,
	}
	degradedSpent = &instrument{
		"zae_limiter.degraded_spent.tokens", "counter", "{token}",
		"Tokens that outages took of shares, and that were debited when the store was back. A parent counts for itself.", nil,
	}
)

// all are the metrics in the order of the documentation.
var all = []*instrument{
	decisions, refusals, taken, returned, reserved, reservedSettled, usedRatio, callDuration, shards, operationDuration, requests, units, capacity, rate, waiting,
	healed, braked, slotsHeld, slotsWaiting, slotLimits, slotRefusals, slotsLost, outages, away, degradedSpent, resent, sentOnce, reclaimed, lostReturned, lostKept, unreserved, takenForLost,
}

// instruments are the metrics of one observer.
type instruments struct {
	decisions, refusals, requests   metric.Int64Counter
	slotRefusals                    metric.Int64Counter
	taken, returned, units          metric.Float64Counter
	reserved, reservedSettled       metric.Float64Counter
	callDuration, operationDuration metric.Float64Histogram
	usedRatio                       metric.Float64Histogram
	shards                          metric.Int64Histogram
}

func newInstruments(m metric.Meter, names *labels.Names, limiters *labels.Limiters) (*instruments, error) {
	var in instruments
	var errs [17]error
	for i, c := range []struct {
		is *instrument
		to *metric.Int64Counter
	}{{decisions, &in.decisions}, {refusals, &in.refusals}, {requests, &in.requests}} {
		*c.to, errs[i] = m.Int64Counter(c.is.Name, metric.WithUnit(c.is.Unit), metric.WithDescription(c.is.Help))
	}
	for i, c := range []struct {
		is *instrument
		to *metric.Float64Counter
	}{{taken, &in.taken}, {returned, &in.returned}, {units, &in.units}, {reserved, &in.reserved}, {reservedSettled, &in.reservedSettled}} {
		*c.to, errs[3+i] = m.Float64Counter(c.is.Name, metric.WithUnit(c.is.Unit), metric.WithDescription(c.is.Help))
	}
	for i, h := range []struct {
		is *instrument
		to *metric.Float64Histogram
	}{{callDuration, &in.callDuration}, {operationDuration, &in.operationDuration}} {
		*h.to, errs[8+i] = m.Float64Histogram(h.is.Name, metric.WithUnit(h.is.Unit), metric.WithDescription(h.is.Help),
			metric.WithExplicitBucketBoundaries(durationBounds...))
	}
	in.shards, errs[10] = m.Int64Histogram(shards.Name, metric.WithUnit(shards.Unit), metric.WithDescription(shards.Help),
		metric.WithExplicitBucketBoundaries(shardBounds...))
	_, errs[11] = m.Int64ObservableGauge(capacity.Name, metric.WithUnit(capacity.Unit), metric.WithDescription(capacity.Help),
		metric.WithInt64Callback(func(_ context.Context, to metric.Int64Observer) error {
			configured(names, func(l limiter.Limit, attributes metric.MeasurementOption) { to.Observe(l.Capacity, attributes) })
			return nil
		}))
	_, errs[12] = m.Float64ObservableGauge(rate.Name, metric.WithUnit(rate.Unit), metric.WithDescription(rate.Help),
		metric.WithFloat64Callback(func(_ context.Context, to metric.Float64Observer) error {
			configured(names, func(l limiter.Limit, attributes metric.MeasurementOption) {
				if l.Renews == nil { // a quota earns nothing from second to second
					to.Observe(float64(l.Amount)/l.Period.Seconds(), attributes)
				}
			})
			return nil
		}))
	in.usedRatio, errs[13] = m.Float64Histogram(usedRatio.Name, metric.WithUnit(usedRatio.Unit), metric.WithDescription(usedRatio.Help),
		metric.WithExplicitBucketBoundaries(labels.UsedRatios...))
	errs[14] = counted(m, limiters)
	in.slotRefusals, errs[15] = m.Int64Counter(slotRefusals.Name, metric.WithUnit(slotRefusals.Unit), metric.WithDescription(slotRefusals.Help))
	errs[16] = countedSlots(m, names, limiters)
	return &in, errors.Join(errs[:]...)
}

// counted makes the instruments of what limiters count themselves.
func counted(m metric.Meter, limiters *labels.Limiters) error {
	observe := func(value func(labels.Counts) int64) metric.Int64Callback {
		return func(_ context.Context, to metric.Int64Observer) error {
			if sum, ok := limiters.Sum(); ok {
				to.Observe(value(sum))
			}
			return nil
		}
	}
	_, err := m.Int64ObservableGauge(waiting.Name, metric.WithUnit(waiting.Unit), metric.WithDescription(waiting.Help),
		metric.WithInt64Callback(observe(func(c labels.Counts) int64 { return c.Waiting })))
	_, errHealed := m.Int64ObservableCounter(healed.Name, metric.WithUnit(healed.Unit), metric.WithDescription(healed.Help),
		metric.WithInt64Callback(observe(func(c labels.Counts) int64 { return c.Healed })))
	_, errBraked := m.Int64ObservableCounter(braked.Name, metric.WithUnit(braked.Unit), metric.WithDescription(braked.Help),
		metric.WithInt64Callback(observe(func(c labels.Counts) int64 { return c.Braked })))
	_, errLost := m.Int64ObservableCounter(slotsLost.Name, metric.WithUnit(slotsLost.Unit), metric.WithDescription(slotsLost.Help),
		metric.WithInt64Callback(observe(func(c labels.Counts) int64 { return c.SlotsLost })))
	return errors.Join(err, errHealed, errBraked, errLost, countedOutages(m, observe), countedLost(m, observe))
}

// countedLost makes the instruments of lost answers, and of what lost processes took.
func countedLost(m metric.Meter, observe func(func(labels.Counts) int64) metric.Int64Callback) error {
	counter := func(is *instrument, value func(labels.Counts) int64) error {
		_, err := m.Int64ObservableCounter(is.Name, metric.WithUnit(is.Unit), metric.WithDescription(is.Help), metric.WithInt64Callback(observe(value)))
		return err
	}
	return errors.Join(counter(resent, func(c labels.Counts) int64 { return c.Resent }),
		counter(sentOnce, func(c labels.Counts) int64 { return c.SentOnce }), counter(reclaimed, func(c labels.Counts) int64 { return c.Reclaimed }),
		counter(lostReturned, func(c labels.Counts) int64 { return c.LostReturned }), counter(lostKept, func(c labels.Counts) int64 { return c.LostKept }),
		counter(unreserved, func(c labels.Counts) int64 { return c.Unreserved }),
		counter(takenForLost, func(c labels.Counts) int64 { return c.TakenForLost }))
}

// countedOutages makes the instruments of outages.
func countedOutages(m metric.Meter, observe func(func(labels.Counts) int64) metric.Int64Callback) error {
	_, err := m.Int64ObservableCounter(outages.Name, metric.WithUnit(outages.Unit), metric.WithDescription(outages.Help),
		metric.WithInt64Callback(observe(func(c labels.Counts) int64 { return c.Outages })))
	_, errAway := m.Int64ObservableGauge(away.Name, metric.WithUnit(away.Unit), metric.WithDescription(away.Help),
		metric.WithInt64Callback(observe(func(c labels.Counts) int64 { return c.Away })))
	_, errSpent := m.Int64ObservableCounter(degradedSpent.Name, metric.WithUnit(degradedSpent.Unit), metric.WithDescription(degradedSpent.Help),
		metric.WithInt64Callback(observe(func(c labels.Counts) int64 { return c.DegradedSpent })))
	return errors.Join(err, errAway, errSpent)
}

// countedSlots makes the instruments of slots that are held, waited for and configured.
func countedSlots(m metric.Meter, names *labels.Names, limiters *labels.Limiters) error {
	gauge := func(is *instrument, observe func(func(int64, ...attribute.KeyValue))) error {
		_, err := m.Int64ObservableGauge(is.Name, metric.WithUnit(is.Unit), metric.WithDescription(is.Help),
			metric.WithInt64Callback(func(_ context.Context, to metric.Int64Observer) error {
				observe(func(n int64, attributes ...attribute.KeyValue) { to.Observe(n, metric.WithAttributes(attributes...)) })
				return nil
			}))
		return err
	}
	uses := func(value func(labels.SlotCount) int64) func(func(int64, ...attribute.KeyValue)) {
		return func(tell func(int64, ...attribute.KeyValue)) {
			for _, c := range limiters.Slots(names) {
				tell(value(c), ResourceKey.String(c.Resource), LimitKey.String(c.Limit))
			}
		}
	}
	return errors.Join(
		gauge(slotsHeld, uses(func(c labels.SlotCount) int64 { return c.Held })),
		gauge(slotsWaiting, uses(func(c labels.SlotCount) int64 { return c.Waiting })),
		gauge(slotLimits, func(tell func(int64, ...attribute.KeyValue)) {
			for _, level := range names.Levels() {
				for _, l := range level.Slots {
					tell(l.Slots, LevelKey.String(level.Name), ResourceKey.String(level.Resource), LimitKey.String(l.Name))
				}
			}
		}),
	)
}

// configured yields the configured limits with their attributes.
func configured(names *labels.Names, yield func(limiter.Limit, metric.MeasurementOption)) {
	for _, level := range names.Levels() {
		for _, l := range level.Limits {
			yield(l, metric.WithAttributes(LevelKey.String(level.Name), ResourceKey.String(level.Resource), LimitKey.String(l.Name)))
		}
	}
}

// called counts a call.
func (in *instruments) called(ctx context.Context, names *labels.Names, r *limiter.CallResult) {
	of := names.Of(r, r.Resource)
	resource := ResourceKey.String(of.Label)
	attributes := []attribute.KeyValue{resource, CallKey.String(string(r.Kind)), ResultKey.String(string(r.Result))}
	if kind := limiter.ErrorKind(r.Err); kind != "" && r.Result != limiter.Refused {
		attributes = append(attributes, semconv.ErrorTypeKey.String(kind))
	}
	in.callDuration.Record(ctx, r.Latency.Seconds(), metric.WithAttributes(attributes...))
	for p := range r.Parts() {
		in.moved(ctx, names.Of(r, p.Resource), r, &p)
	}
	if !r.Kind.IsDecision() {
		return
	}
	source := SourceKey.String(labels.Source(r))
	in.decisions.Add(ctx, 1, metric.WithAttributes(resource, ResultKey.String(string(r.Result)), source))
	if r.Shards > 0 {
		in.shards.Record(ctx, int64(r.Shards), metric.WithAttributes(resource))
	}
	if full, ok := errors.AsType[*limiter.SlotsError](r.Err); ok {
		of := names.Of(r, full.Resource)
		in.slotRefusals.Add(ctx, 1, metric.WithAttributes(ResourceKey.String(of.Label), LimitKey.String(of.Limit(full.Limit)), BucketKey.String(labels.BucketOf(r, full.Entity))))
	}
	for i := range r.Statuses {
		if s := &r.Statuses[i]; s.Exceeded {
			of := names.Of(r, s.Resource)
			in.refusals.Add(ctx, 1, metric.WithAttributes(ResourceKey.String(of.Label), LimitKey.String(of.Limit(s.Limit.Name)), BucketKey.String(labels.Bucket(r, s)), source, ModeKey.String(limiter.Enforce.String())))
		}
	}
	for i := range r.Shadowed {
		s := &r.Shadowed[i]
		of := names.Of(r, s.Resource)
		in.refusals.Add(ctx, 1, metric.WithAttributes(ResourceKey.String(of.Label), LimitKey.String(of.Limit(s.Limit.Name)), BucketKey.String(labels.Bucket(r, s)), source, ModeKey.String(limiter.Shadow.String())))
	}
}

// moved counts the tokens that a call took and returned of one resource.
func (in *instruments) moved(ctx context.Context, of *labels.Resource, r *limiter.CallResult, p *limiter.PartResult) {
	about := func(limit string) metric.MeasurementOption {
		return metric.WithAttributes(ResourceKey.String(of.Label), LimitKey.String(of.Limit(limit)))
	}
	for _, a := range p.Settled {
		if amount := tokens(a); amount > 0 {
			in.taken.Add(ctx, amount, about(a.Limit))
		} else {
			in.returned.Add(ctx, -amount, about(a.Limit))
		}
	}
	for name, amount := range p.Reserved {
		if r.Kind == limiter.CallToken {
			in.reserved.Add(ctx, float64(amount), about(name))
			continue
		}
		in.reservedSettled.Add(ctx, float64(amount), about(name), metric.WithAttributes(WhenKey.String(labels.When(r))))
		if ratio, ok := labels.UsedRatio(p, name); ok {
			in.usedRatio.Record(ctx, ratio, about(name))
		}
	}
	if r.Kind.IsDecision() && r.Result == limiter.Admitted {
		for name, amount := range p.Consume {
			in.taken.Add(ctx, float64(amount), about(name))
		}
	}
}

// operated counts an operation of the store.
func (in *instruments) operated(ctx context.Context, of *labels.Resource, r *limiter.OperationResult) {
	resource, operation := ResourceKey.String(of.Label), OperationKey.String(string(r.Kind))
	attributes := []attribute.KeyValue{semconv.DBSystemNameAWSDynamoDB, operation, ResultKey.String(labels.Outcome(r))}
	if r.Cost.Name != "" {
		attributes = append(attributes, semconv.DBOperationName(r.Cost.Name), semconv.DBCollectionName(r.Cost.Table))
	}
	if r.Err != nil {
		attributes = append(attributes, semconv.ErrorTypeKey.String(limiter.ErrorKind(r.Err)))
	}
	in.operationDuration.Record(ctx, r.Latency.Seconds(), metric.WithAttributes(attributes...))
	in.requests.Add(ctx, int64(r.Cost.Requests), metric.WithAttributes(resource, operation))
	in.units.Add(ctx, r.Cost.ReadUnits, metric.WithAttributes(resource, KindKey.String("read")))
	in.units.Add(ctx, r.Cost.WriteUnits, metric.WithAttributes(resource, KindKey.String("write")))
}
