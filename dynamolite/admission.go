package dynamolite

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// demand is the capacity that a request needs from one partition of a table or an index.
type demand struct {
	table     *table
	index     *index // nil: of the table itself, or of a local index, which is part of the table's partitions
	op        wall.Op
	partition wall.Partition
	units     units
}

func (d *demand) meter() *wall.Meter {
	if d.index != nil {
		return d.index.meter
	}
	return d.table.meter
}

// refusal returns the demand together with the limit that refused it.
func (d *demand) refusal(level wall.Level) throttle {
	t := throttle{op: d.op, level: level, arn: d.table.arn(), billing: d.table.schema().billing}
	if d.index != nil {
		t.index = d.index.name
	}
	return t
}

// admit charges the demands of a request, all or none. Its error is that of a throttled request
// and names every partition that refused.
func (db *DB) admit(demands []demand) error {
	if len(demands) == 0 {
		return nil
	}
	now := db.now()
	if refusals := refusalsOf(now, demands); len(refusals) > 0 {
		return throttled(refusals...)
	}
	charge(now, demands)
	return nil
}

func refusalsOf(now time.Time, demands []demand) (refusals []throttle) {
	for i := range demands {
		d := &demands[i]
		if level := d.meter().Check(now, d.op, d.partition); level != wall.Admitted {
			refusals = append(refusals, d.refusal(level))
		}
	}
	return refusals
}

// charge takes the consumed capacity, even if there is not enough room for it.
func charge(now time.Time, demands []demand) {
	for i := range demands {
		d := &demands[i]
		d.meter().Charge(now, d.op, d.partition, int64(d.units))
	}
}

// limited reports whether the database has limits at all.
func (db *DB) limited() bool { return db.limits != (Limits{}) }

// demands returns the demands of an evaluated write, at the price of the bill. A failed condition
// consumes capacity too.
func (w *write) demands(db *DB, e *effect, price func(units) units) []demand {
	if !db.limited() {
		return nil
	}
	ds := make([]demand, 1, 1+2*len(e.changes))
	ds[0] = demand{table: w.table, op: wall.Write, partition: w.key.partition(), units: price(e.units)}
	for i := range e.changes {
		c := &e.changes[i]
		if c.index.local {
			ds[0].units += price(c.units)
			continue
		}
		if c.drop != "" {
			ds = append(ds, demand{w.table, c.index, wall.Write, c.dropPartition, price(c.dropUnits)})
		}
		if c.put != nil {
			ds = append(ds, demand{w.table, c.index, wall.Write, c.putPartition, price(c.units - c.dropUnits)})
		}
	}
	return ds
}

// partition returns the place of the item's partition key among the partitions of the table.
func (k *itemKey) partition() wall.Partition { return wall.PartitionOf(k.full[:k.hashLen]) }

// readDemand returns the demand of reading an item at a cost of u.
func (t *table) readDemand(k *itemKey, u units) demand {
	return demand{table: t, op: wall.Read, partition: k.partition(), units: u}
}

// measure gives a table and its indexes meters for the limits of the database, or changes the
// capacity of the meters that they have.
func (db *DB) measure(t *table, s *schema) {
	if !db.limited() {
		return
	}
	now := db.now()
	configured := func(m **wall.Meter, p types.ProvisionedThroughput) {
		if *m == nil {
			*m = db.limits.meter(now, s.billing, p)
		} else {
			(*m).Configure(now, db.limits.capacity(s.billing, p))
		}
	}
	configured(&t.meter, s.capacity)
	for _, x := range s.indexes {
		if !x.local {
			configured(&x.meter, s.indexCapacity[x.name])
		}
	}
}

// hold waits for the time that a transaction spends between its two steps: a second latency.
func (db *DB) hold(ctx context.Context) error {
	before, after := db.latencies.next()
	return canceledOr(wait(ctx, before+after))
}

func canceledOr(err error) error {
	if err != nil {
		return &smithy.CanceledError{Err: err}
	}
	return nil
}

// isThrottled reports whether err is the error of a throttled request.
func isThrottled(err error) bool {
	if _, ok := errors.AsType[*types.ThrottlingException](err); ok {
		return true
	}
	_, ok := errors.AsType[*types.ProvisionedThroughputExceededException](err)
	return ok
}
