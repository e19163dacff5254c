package request

import (
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// Demand is the capacity that a request needs from one partition of a table or an index.
type Demand struct {
	Table     *table.Table
	index     *table.Index // nil: of the table itself, or of a local index, which is part of the table's partitions
	Op        wall.Op
	Partition wall.Partition
	Units     table.Units
}

func (d *Demand) meter() *wall.Meter {
	if d.index != nil {
		return d.index.Meter
	}
	return d.Table.Meter
}

// refusal returns the demand together with the limit that refused it.
func (d *Demand) refusal(level wall.Level) Throttle {
	t := Throttle{Op: d.Op, Level: level, ARN: d.Table.ARN(), Billing: d.Table.Schema().Billing}
	if d.index != nil {
		t.Index = d.index.Name
	}
	return t
}

// admit charges the demands of a request, all or none. Its error is that of a throttled request
// and names every partition that refused.
func (ex *Executor) admit(demands []Demand) error {
	if len(demands) == 0 {
		return nil
	}
	now := ex.Now()
	if refusals := RefusalsOf(now, demands); len(refusals) > 0 {
		return Throttled(refusals...)
	}
	Charge(now, demands)
	return nil
}

// RefusalsOf returns the refusals of the demands that find no room. It takes nothing.
func RefusalsOf(now time.Time, demands []Demand) (refusals []Throttle) {
	for i := range demands {
		d := &demands[i]
		if level := d.meter().Check(now, d.Op, d.Partition); level != wall.Admitted {
			refusals = append(refusals, d.refusal(level))
		}
	}
	return refusals
}

// Charge takes the consumed capacity, even if there is not enough room for it.
func Charge(now time.Time, demands []Demand) {
	for i := range demands {
		d := &demands[i]
		d.meter().Charge(now, d.Op, d.Partition, int64(d.Units))
	}
}

// Demands returns the demands of an evaluated write, at the price of the bill. A failed condition
// consumes capacity too.
func (w *Write) Demands(e *Effect, price func(table.Units) table.Units) []Demand {
	if w.Table.Meter == nil {
		return nil
	}
	ds := make([]Demand, 1, 1+2*len(e.changes))
	ds[0] = Demand{Table: w.Table, Op: wall.Write, Partition: w.Key.Partition(), Units: price(e.units)}
	for i := range e.changes {
		c := &e.changes[i]
		if c.index.Local {
			ds[0].Units += price(c.units)
			continue
		}
		if c.drop != "" {
			ds = append(ds, Demand{w.Table, c.index, wall.Write, c.dropPartition, price(c.dropUnits)})
		}
		if c.put != nil {
			ds = append(ds, Demand{w.Table, c.index, wall.Write, c.putPartition, price(c.units - c.dropUnits)})
		}
	}
	return ds
}

// ReadDemand returns the demand of reading an item at a cost of u.
func ReadDemand(t *table.Table, k *storage.ItemKey, u table.Units) Demand {
	return Demand{Table: t, Op: wall.Read, Partition: k.Partition(), Units: u}
}

// isThrottled reports whether err is the error of a throttled request.
func isThrottled(err error) bool {
	if _, ok := errors.AsType[*types.ThrottlingException](err); ok {
		return true
	}
	_, ok := errors.AsType[*types.ProvisionedThroughputExceededException](err)
	return ok
}
