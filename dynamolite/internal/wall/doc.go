// Package wall decides which requests a table refuses because its throughput is used up, as
// DynamoDB decides it. It knows neither items nor the SDK: a caller names a partition and an amount.
//
// A [Meter] stands for one table or one global secondary index. It has two levels, and reads and
// writes apart on each:
//
//   - the partition: what one partition key value may use. DynamoDB splits a table for heat until a hot
//     key value has a physical partition of its own, so that one key value is the smallest thing with a
//     limit, and it serves no more than that partition does. How fast the split comes about is not
//     modelled: here it has always happened already. The local secondary indexes of a table live in the
//     table's partitions.
//   - the whole: what all partitions may use together, which is the provisioned throughput of a
//     provisioned table and the ramp of an on-demand one.
//
// # Buckets
//
// A level is a bucket of half units. A request is admitted while the balance is above zero and is then
// charged what it did cost, which may take the balance below zero, because the cost of a read is known
// only after it. So over any interval of T seconds a bucket admits at most its depth, plus its rate
// times T, plus the cost of the requests that were under way when it ran out. Requests refused are not
// charged.
//
// A bucket holds one second's worth of its rate, but for the provisioned one, which keeps up to five
// minutes ("DynamoDB burst and adaptive capacity": up to 300 seconds of unused capacity are retained).
// The credit belongs to the provisioned throughput and never lifts the limit of a partition: by "Best
// practices for designing and using partition keys" a partition delivers at most 1,000 write and 3,000
// read units per second. With 300 s of credit a key idle for five minutes would serve 1,500 writes per
// second for ten minutes, and the attack this package exists for would pass. A new table has no credit
// yet, only the second's worth.
//
// # The ramp
//
// "DynamoDB on-demand capacity mode" says: a new table sustains 4,000 writes and 12,000 reads per
// second, any table up to double its previous peak, a peak that is sustained becomes the previous one,
// traffic once reached is served again at any time, and exceeding double the previous peak within 30
// minutes may be throttled. What it leaves open is chosen here: a peak is the consumption of a whole
// minute, the period of the metric ConsumedWriteCapacityUnits; minutes count from the creation of the
// table; a minute counts as previous 30 minutes after its end. The ceiling during minute k is thus the
// larger of the initial one and double the best minute up to k-31. Where AWS says "may", the ramp does.
//
// A table switched to on-demand has as its previous peak half of the most that was provisioned
// for it ("Initial throughput for on-demand capacity mode").
//
// # Exactness
//
// All arithmetic is on integers and loses nothing: a balance counts grains, of which a half unit has
// as many as the period of its rate has nanoseconds, so that a rate of r half units per period is
// r grains per nanosecond. Refilling in many steps or in one gives the same balance.
//
// The naive design is a token bucket of floats for each key ever seen. It drifts, and a table
// with many keys never stops growing. Here a bucket that is full again is forgotten, since an
// unknown partition counts as full.
package wall
