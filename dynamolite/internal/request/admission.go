package request

import (
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// Demand is the capacity that a request needs from one partition of a table or an index.
//
// The demands of a write begin with the table, and each partition of a global index follows. An
// item that moves in an index needs two partitions of it.
type Demand struct {
	Table *table.Table
	// index is nil if the demand is of the table itself, or of a local index. A local index lies in
	// the partitions of the table, so its units are added to the table's demand.
	index     *table.Index
	Op        wall.Op
	Partition wall.Partition
	// Units may be 0 while the demand only asks for room: the price of a read is known after it.
	Units table.Units
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
//
// Asking comes before charging for all partitions together. Otherwise a full index would refuse a
// write that the table has already been charged for, and the refund would throttle others meanwhile
// (ADR 010).
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
//
// The naive design takes an estimate before the work and corrects it afterwards. An estimate that
// is too high refuses requests that AWS admits, and the price of a read is unknown until the item
// is read. A demand therefore finds room while anything is left, and [Charge] takes the price, even
// below zero. Requests that run at the same moment can each overdraw once. They pay it back:
// nothing is admitted until the debt has refilled.
//
//	request A   check: 1 left ··············· charge 5: −4
//	request B                  check: 1 left ··············· charge 5: −9
func RefusalsOf(now time.Time, demands []Demand) (refusals []Throttle) {
	for i := range demands {
		d := &demands[i]
		if level := d.meter().Check(now, d.Op, d.Partition); level != wall.Admitted {
			refusals = append(refusals, d.refusal(level))
		}
	}
	return refusals
}

// Charge takes the consumed capacity, even if there is not enough room for it. It may be called
// without asking first. A transaction asks in its first step and charges in its second, and a
// cancelled one is charged for what it read.
func Charge(now time.Time, demands []Demand) {
	for i := range demands {
		d := &demands[i]
		d.meter().Charge(now, d.Op, d.Partition, int64(d.Units))
	}
}

// Demands returns the demands of an evaluated write, at the price of the bill. A failed condition
// consumes capacity too. It then has no changes, and needs the table alone. The bill has the same
// units by index, not by partition.
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

// ReadDemand returns the demand of reading an item at a cost of u. U is 0 if the size is not known
// yet. Only the table has partitions for single items: an index is read by Query and Scan.
func ReadDemand(t *table.Table, k *storage.ItemKey, u table.Units) Demand {
	return Demand{Table: t, Op: wall.Read, Partition: k.Partition(), Units: u}
}

// isThrottled reports whether err is the error of a throttled request.
//
// A batch returns such a write as unprocessed. Any other error ends the batch.
func isThrottled(err error) bool {
	if _, ok := errors.AsType[*types.ThrottlingException](err); ok {
		return true
	}
	_, ok := errors.AsType[*types.ProvisionedThroughputExceededException](err)
	return ok
}

// Throttle is one refusal of a request: the limit that refused it, and of which table or index. It
// says what DynamoDB tells the caller, so that a program under test can log which key or limit is
// hot.
type Throttle struct {
	Op      wall.Op
	Level   wall.Level // not wall.Admitted
	ARN     string     // of the table
	Index   string     // the global secondary index, or "" for the table
	Billing types.BillingMode
}

// The texts of DynamoDB. The documentation of TransactionCanceledException has those of the
// transaction ("TransactWriteItems", API reference), and single requests are refused with the
// same texts. The text of the quota is in the documentation of RequestLimitExceeded.
const (
	throttledTable = "The level of configured provisioned throughput for the table was exceeded. " +
		"Consider increasing your provisioning level with the UpdateTable API."
	throttledIndex = "The level of configured provisioned throughput for one or more global secondary indexes of the table was exceeded. " +
		"Consider increasing your provisioning level for the under-provisioned global secondary indexes with the UpdateTable API."
	throttledOnDemand = "Throughput exceeds the current capacity of your table or index. " +
		"DynamoDB is automatically scaling your table or index so please try again shortly. If exceptions persist, check if you have a hot key: " +
		"https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html."
	throttledOnDemandIndex = "Throughput exceeds the current capacity for one or more global secondary indexes. " +
		"DynamoDB is automatically scaling your index so please try again shortly."
	throttledAccount = "Throughput exceeds the current throughput quota for your account."
)

// reason returns the refusal as DynamoDB names it: the resource's kind, the operation, the limit,
// and the resource ("ThrottlingReason", API reference; the resource of an index as in "Diagnosing
// throttling").
func (t *Throttle) reason() types.ThrottlingReason {
	name, resource := "Table", t.ARN
	if t.Index != "" {
		name, resource = "Index", api.IndexARN(t.ARN, t.Index)
	}
	if t.Op == wall.Read {
		name += "Read"
	} else {
		name += "Write"
	}
	switch t.Level {
	case wall.Provisioned:
		name += "ProvisionedThroughputExceeded"
	case wall.AccountLimit:
		name += "AccountLimitExceeded"
	default:
		name += "KeyRangeThroughputExceeded"
	}
	return types.ThrottlingReason{Reason: &name, Resource: &resource}
}

func (t *Throttle) onDemand() bool { return t.Billing == types.BillingModePayPerRequest }

// The quota of the account comes first: its text is the same for tables and indexes, and for both
// billing modes.
func (t *Throttle) message() string {
	switch {
	case t.Level == wall.AccountLimit:
		return throttledAccount
	case t.onDemand() && t.Index != "" && t.Op == wall.Write:
		return throttledOnDemandIndex
	case t.onDemand():
		return throttledOnDemand
	case t.Index != "":
		return throttledIndex
	default:
		return throttledTable
	}
}

// Throttled returns the error of a request that was refused for one reason or several; the first
// one decides the type. A provisioned table or index answers with a
// *types.ProvisionedThroughputExceededException, even if a partition is full ("Diagnosing
// throttling", step 1). An on-demand one answers with a *types.ThrottlingException ("Error
// handling with DynamoDB"; for an index that is full on a write: "Understanding global secondary
// index (GSI) write throttling and back pressure"). The SDKs retry both.
func Throttled(refusals ...Throttle) error {
	reasons := make([]types.ThrottlingReason, len(refusals))
	for i := range refusals {
		reasons[i] = refusals[i].reason()
	}
	first := &refusals[0]
	if first.onDemand() {
		return &types.ThrottlingException{Message: aws.String(first.message()), ThrottlingReasons: reasons}
	}
	return &types.ProvisionedThroughputExceededException{Message: aws.String(first.message()), ThrottlingReasons: reasons}
}

// Cancellation returns the reason that the refusal of one operation adds to the cancellation of
// its transaction. Codes and texts are those of TransactionCanceledException. A reason there has
// no room for the resource.
func (t *Throttle) Cancellation() types.CancellationReason {
	code := "ProvisionedThroughputExceeded"
	if t.onDemand() {
		code = "ThrottlingError"
	}
	return types.CancellationReason{Code: &code, Message: aws.String(t.message())}
}
