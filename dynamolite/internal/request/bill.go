package request

import (
	"sort"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
)

// single returns the price of a request outside of transactions.
func single(u table.Units) table.Units { return u }

// Transacted returns the price inside a transaction, where every item is prepared and committed.
// Index writes are doubled too, as in DynamoDB Local. AWS does not document whether it does so;
// this is still open.
func Transacted(u table.Units) table.Units { return 2 * u }

// Bill is the capacity that one request consumes on one table. A bill with only the table set is
// an empty bill of writes.
//
// The naive design computes the capacity from the answer. A projection, a filter and a failed
// condition make the answer smaller, but not the price. The price is therefore taken where items
// are read and evaluated.
//
// A bill counts a table and its indexes. The limits count partitions: see [Demand].
type Bill struct {
	table *table.Table
	// Reads tells that the units are of reads; a bill has never both.
	Reads   bool
	Doubled bool // of a transaction: its report separates reads and writes
	// Units is what the table itself consumed, without its indexes.
	Units table.Units
	// indexes has only those that were charged, each once. A list is enough: a table has at most
	// 25.
	indexes []indexUnits
}

// indexUnits is the charge of one index.
type indexUnits struct {
	index *table.Index
	units table.Units
}

// The writes of one transaction may change the same index several times.
func (b *Bill) addIndex(x *table.Index, u table.Units) {
	for i := range b.indexes {
		if b.indexes[i].index == x {
			b.indexes[i].units += u
			return
		}
	}
	b.indexes = append(b.indexes, indexUnits{x, u})
}

// AddWrite adds the cost of an evaluated write.
func (b *Bill) AddWrite(e *Effect) {
	b.Units += b.price(e.units)
	for i := range e.changes {
		b.addIndex(e.changes[i].index, b.price(e.changes[i].units))
	}
}

func (b *Bill) price(u table.Units) table.Units {
	if b.Doubled {
		return Transacted(u)
	}
	return u
}

// total returns the sum of the charges of the table and its indexes.
func (b *Bill) total() table.Units {
	total := b.Units
	for _, x := range b.indexes {
		total += x.units
	}
	return total
}

// enter writes the bill into the ledger.
//
// The counters are those of the name, not of the table: they outlive it.
func (b *Bill) enter(op api.Operation) {
	b.table.Counters.Add(op, b.Reads, b.Units)
	for _, x := range b.indexes {
		x.index.Counters.Add(op, b.Reads, x.units)
	}
}

// report returns the bill as the response shows it, or nil if the request does not ask for it.
//
// TOTAL has the sum, INDEXES also each part, as AWS documents for ReturnConsumedCapacity.
func (b *Bill) report(want types.ReturnConsumedCapacity) *types.ConsumedCapacity {
	if want != types.ReturnConsumedCapacityTotal && want != types.ReturnConsumedCapacityIndexes {
		return nil
	}
	sum := b.capacity(b.total())
	out := &types.ConsumedCapacity{
		TableName:          aws.String(b.table.Name),
		CapacityUnits:      sum.CapacityUnits,
		ReadCapacityUnits:  sum.ReadCapacityUnits,
		WriteCapacityUnits: sum.WriteCapacityUnits,
	}
	if want == types.ReturnConsumedCapacityIndexes {
		out.Table = new(b.capacity(b.Units))
		for _, x := range b.indexes {
			of := &out.GlobalSecondaryIndexes
			if x.index.Local {
				of = &out.LocalSecondaryIndexes
			}
			if *of == nil {
				*of = map[string]types.Capacity{}
			}
			(*of)[x.index.Name] = b.capacity(x.units)
		}
	}
	return out
}

func (b *Bill) capacity(u table.Units) types.Capacity {
	c := types.Capacity{CapacityUnits: aws.Float64(u.Float())}
	switch {
	case b.Doubled && b.Reads:
		c.ReadCapacityUnits = aws.Float64(u.Float())
	case b.Doubled:
		c.WriteCapacityUnits = aws.Float64(u.Float())
	}
	return c
}

// Bills are the bills of a request that may span tables.
//
// A table that a batch names twice, by its name and its ARN, has one bill.
type Bills map[*table.Table]*Bill

// Of returns the bill of a table. If there is none yet, it becomes a copy of the template. The
// template says whether the bill is of reads and of a transaction. All items of a table share one
// bill, so their units are added before they are reported.
func (bs Bills) Of(t *table.Table, template Bill) *Bill {
	b, ok := bs[t]
	if !ok {
		template.table = t
		b = &template
		bs[t] = b
	}
	return b
}

// Enter writes all bills into the ledger.
func (bs Bills) Enter(op api.Operation) {
	for _, b := range bs {
		b.enter(op)
	}
}

// Report lists the bills by table name. It returns nil if the request does not ask for them.
func (bs Bills) Report(want types.ReturnConsumedCapacity) []types.ConsumedCapacity {
	var out []types.ConsumedCapacity
	for _, b := range bs {
		if c := b.report(want); c != nil {
			out = append(out, *c)
		}
	}
	sort.Slice(out, func(i, j int) bool { return *out[i].TableName < *out[j].TableName })
	return out
}
