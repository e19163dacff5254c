package dynamolite

import (
	"sort"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// units is consumed capacity, counted in halves because an eventually consistent read costs half
// a unit. Sums of it are exact.
type units int64

const unit units = 2 // one RCU or WCU

func (u units) float() float64 { return float64(u) / float64(unit) }

const (
	writeBlock = 1024     // bytes that one WCU writes
	readBlock  = 4 * 1024 // bytes that one RCU reads
)

// writeUnits returns the price of writing an item of so many bytes: the larger of its sizes
// before and after. Even a missing item costs one unit.
func writeUnits(bytes int) units {
	return unit * units(max(1, (bytes+writeBlock-1)/writeBlock))
}

// readUnits returns the price of reading so many bytes at once. Bytes is the size of whole items,
// whatever the projection returns. A missing item costs as much as a small one. An empty Query is
// billed the minimum too: AWS documents no exception, but DynamoDB Local bills 0. A measurement
// on AWS is still open.
func readUnits(bytes int, consistent bool) units {
	blocks := units(max(1, (bytes+readBlock-1)/readBlock))
	if consistent {
		return blocks * unit
	}
	return blocks * unit / 2
}

// single returns the price of a request outside of transactions.
func single(u units) units { return u }

// transacted returns the price inside a transaction, where every item is prepared and committed.
// Index writes are doubled too, as in DynamoDB Local. AWS does not document whether it does so;
// this is still open.
func transacted(u units) units { return 2 * u }

// bill is the capacity that one request consumes on one table. A bill with only the table set is
// an empty bill of writes.
type bill struct {
	table   *table
	reads   bool
	doubled bool // of a transaction: its report separates reads and writes
	units   units
	indexes []indexUnits // only those that were charged
}

// indexUnits is the charge of one index.
type indexUnits struct {
	index *index
	units units
}

func (b *bill) addIndex(x *index, u units) {
	for i := range b.indexes {
		if b.indexes[i].index == x {
			b.indexes[i].units += u
			return
		}
	}
	b.indexes = append(b.indexes, indexUnits{x, u})
}

// addWrite adds the cost of an evaluated write.
func (b *bill) addWrite(e *effect) {
	b.units += b.price(e.units)
	for i := range e.changes {
		b.addIndex(e.changes[i].index, b.price(e.changes[i].units))
	}
}

func (b *bill) price(u units) units {
	if b.doubled {
		return transacted(u)
	}
	return u
}

// total returns the sum of the charges of the table and its indexes.
func (b *bill) total() units {
	total := b.units
	for _, x := range b.indexes {
		total += x.units
	}
	return total
}

// enter writes the bill into the ledger.
func (b *bill) enter(op operation) {
	b.table.counters.add(op, b.reads, b.units)
	for _, x := range b.indexes {
		x.index.counters.add(op, b.reads, x.units)
	}
}

// report returns the bill as the response shows it, or nil if the request does not ask for it.
func (b *bill) report(want types.ReturnConsumedCapacity) *types.ConsumedCapacity {
	if want != types.ReturnConsumedCapacityTotal && want != types.ReturnConsumedCapacityIndexes {
		return nil
	}
	sum := b.capacity(b.total())
	out := &types.ConsumedCapacity{
		TableName:          aws.String(b.table.name),
		CapacityUnits:      sum.CapacityUnits,
		ReadCapacityUnits:  sum.ReadCapacityUnits,
		WriteCapacityUnits: sum.WriteCapacityUnits,
	}
	if want == types.ReturnConsumedCapacityIndexes {
		out.Table = new(b.capacity(b.units))
		for _, x := range b.indexes {
			of := &out.GlobalSecondaryIndexes
			if x.index.local {
				of = &out.LocalSecondaryIndexes
			}
			if *of == nil {
				*of = map[string]types.Capacity{}
			}
			(*of)[x.index.name] = b.capacity(x.units)
		}
	}
	return out
}

func (b *bill) capacity(u units) types.Capacity {
	c := types.Capacity{CapacityUnits: aws.Float64(u.float())}
	switch {
	case b.doubled && b.reads:
		c.ReadCapacityUnits = aws.Float64(u.float())
	case b.doubled:
		c.WriteCapacityUnits = aws.Float64(u.float())
	}
	return c
}

// bills are the bills of a request that may span tables.
type bills map[*table]*bill

func (bs bills) of(t *table, template bill) *bill {
	b, ok := bs[t]
	if !ok {
		template.table = t
		b = &template
		bs[t] = b
	}
	return b
}

func (bs bills) enter(op operation) {
	for _, b := range bs {
		b.enter(op)
	}
}

// report lists the bills by table name. It returns nil if the request does not ask for them.
func (bs bills) report(want types.ReturnConsumedCapacity) []types.ConsumedCapacity {
	var out []types.ConsumedCapacity
	for _, b := range bs {
		if c := b.report(want); c != nil {
			out = append(out, *c)
		}
	}
	sort.Slice(out, func(i, j int) bool { return *out[i].TableName < *out[j].TableName })
	return out
}
