// Package wall decides which requests a table refuses because its throughput is used up, as
// DynamoDB does (ADR 010). It does not know items or the SDK: a caller gives a partition and an amount.
//
// A [Meter] stands for one table or one global secondary index. It has two levels, with separate
// limits for reads and writes:
//
//   - the partition: the throughput of one partition key value. DynamoDB splits a table for heat
//     until a hot key value has a physical partition of its own. One key value is therefore the
//     smallest unit with a limit, and it gets no more than one partition's throughput. The time
//     that the split takes is not modelled: here it has always already happened. The local
//     secondary indexes of a table are in the table's partitions.
//   - the whole: the throughput of all partitions together. It is the provisioned throughput of a
//     provisioned table and the ramp of an on-demand one.
//
// # Buckets
//
// Each level is a bucket of half units. A request is admitted while the balance is above zero and
// is then charged its actual cost. The charge may take the balance below zero, because the cost
// of a read is known only after it. A bucket therefore admits at most this sum over T seconds:
// its depth, its rate times T, and the cost of the requests in progress when it ran out. Refused
// requests are not charged.
//
// A bucket holds one second's worth of its rate. The exception is the provisioned one, which
// keeps up to five minutes ("DynamoDB burst and adaptive capacity": up to 300 seconds of unused
// capacity are retained). The credit belongs to the provisioned throughput and never raises the
// limit of a partition. By "Best practices for designing and using partition keys", a partition
// delivers at most 1,000 write and 3,000 read units per second. With 300 s of credit, a key that
// was idle for five minutes would serve 1,500 writes per second for ten minutes. The attack that
// this package exists for would then pass. A new table has no credit yet, only the second's
// worth.
//
// # The ramp
//
// "DynamoDB on-demand capacity mode" says: a new table sustains 4,000 writes and 12,000 reads per
// second, any table up to double its previous peak. A peak that is sustained becomes the previous
// one, and traffic once reached is served again at any time. Exceeding double the previous peak
// within 30 minutes may be throttled. This package chooses the points that AWS leaves open. A
// peak is the consumption of a whole minute, the period of the metric ConsumedWriteCapacityUnits.
// Minutes count from the creation of the table, and a minute counts as previous 30 minutes after
// its end. The ceiling during minute k is thus the larger of the initial one and double the best
// minute up to k-31. Where AWS says "may", the ramp throttles.
//
// The previous peak of a table that is switched to on-demand is half of the most that was
// provisioned for it ("Initial throughput for on-demand capacity mode").
//
// # Exactness
//
// All arithmetic is on integers and exact. A balance counts grains. A half unit has as many
// grains as the period of its rate has nanoseconds. A rate of r half units per period is
// therefore r grains per nanosecond. Refilling in many steps or in one gives the same balance.
//
// The naive design is a token bucket of floats for each key ever seen. It drifts, and a table
// with many keys never stops growing. This package forgets a bucket that is full again, because
// an unknown partition counts as full.
package wall
