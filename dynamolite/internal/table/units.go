package table

// Units is consumed capacity, counted in halves because an eventually consistent read costs half
// a unit. Sums of it are exact.
type Units int64

// Unit is one unit of capacity: an RCU or a WCU.
const Unit Units = 2 // one RCU or WCU

// Float returns the units in the API's form.
func (u Units) Float() float64 { return float64(u) / float64(Unit) }

const (
	writeBlock = 1024     // bytes that one WCU writes
	readBlock  = 4 * 1024 // bytes that one RCU reads
)

// WriteUnits returns the price of writing an item of so many bytes: the larger of its sizes
// before and after. Even a missing item costs one unit.
func WriteUnits(bytes int) Units {
	return Unit * Units(max(1, (bytes+writeBlock-1)/writeBlock))
}

// ReadUnits returns the price of reading so many bytes at once. Bytes is the size of whole items,
// whatever the projection returns. A missing item costs as much as a small one. An empty Query is
// billed the minimum too: AWS documents no exception, but DynamoDB Local bills 0. A measurement
// on AWS is still open.
func ReadUnits(bytes int, consistent bool) Units {
	blocks := Units(max(1, (bytes+readBlock-1)/readBlock))
	if consistent {
		return blocks * Unit
	}
	return blocks * Unit / 2
}
