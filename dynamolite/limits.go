package dynamolite

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// Limits is the throughput of each table and of each global secondary index, in units per second.
// A request beyond it is throttled with DynamoDB's error. The zero value limits nothing;
// [AWSLimits] returns AWS's limits.
//
// The engine admits a request while anything is left and then charges its actual cost, so a
// request may overdraw a bucket once. The charge is the consumed capacity, including that of
// failed conditions. A throttled request is charged nothing. A write needs room in the table and
// in every index that it changes, so a full index throttles writes to the table.
type Limits struct {
	// PartitionWriteUnits and PartitionReadUnits are the throughput of one partition key value of
	// a table or an index. At most one second's worth accrues as credit. 0: no limit.
	PartitionWriteUnits, PartitionReadUnits int64

	// Provisioned makes provisioned tables and indexes keep to their provisioned throughput.
	// Default: they serve any load.
	Provisioned bool
	// Burst is how much unused provisioned throughput is kept, as a time; at most ten minutes. A
	// new table starts with one second's worth. Default: a second.
	Burst time.Duration

	// OnDemandWriteUnits and OnDemandReadUnits are the throughput of a new on-demand table or
	// index, over all its partitions. It grows to double the best minute that ended at least 30
	// minutes ago, and never shrinks. 0: any table serves any load.
	OnDemandWriteUnits, OnDemandReadUnits int64
	// QuotaWriteUnits and QuotaReadUnits are the limit to which an on-demand table or index can
	// grow. 0: no limit.
	QuotaWriteUnits, QuotaReadUnits int64
}

// AWSLimits returns the limits that AWS documents:
//
//   - 1,000 WCU and 3,000 RCU per second and partition ("Best practices for designing and using
//     partition keys effectively in DynamoDB"), which a hot key value has for itself ("DynamoDB
//     burst and adaptive capacity");
//   - 300 seconds of unused provisioned throughput kept (ibid.), which raises the limit of a
//     table or an index, never that of a partition;
//   - 4,000 WCU and 12,000 RCU per second for a new on-demand table, later double its previous
//     peak ("DynamoDB on-demand capacity mode");
//   - 40,000 of each for an on-demand table ("Quotas in Amazon DynamoDB", the default of an
//     account).
func AWSLimits() Limits {
	return Limits{
		PartitionWriteUnits: 1_000, PartitionReadUnits: 3_000,
		Provisioned: true, Burst: 300 * time.Second,
		OnDemandWriteUnits: 4_000, OnDemandReadUnits: 12_000,
		QuotaWriteUnits: 40_000, QuotaReadUnits: 40_000,
	}
}

const (
	maxLimit = 1_000_000        // units per second; exact arithmetic has room for no more
	maxBurst = 10 * time.Minute // for the same reason
)

// UnmarshalText parses a command-line value. "off" means no limits, "aws" means [AWSLimits], and
// "WCU,RCU" such as "1000,3000" limits only partitions; there, 0 means no limit. Any other value
// is an *[OptionError], and changes nothing.
func (l *Limits) UnmarshalText(text []byte) error {
	s := string(text)
	switch s {
	case "off":
		*l = Limits{}
		return nil
	case "aws":
		*l = AWSLimits()
		return nil
	}
	var parsed Limits
	writes, reads, ok := strings.Cut(s, ",")
	if !ok {
		return &OptionError{Option: "limits", Value: s, Problem: `is neither "aws" nor "off" nor "WCU,RCU", such as "1000,3000"`}
	}
	for _, part := range []struct {
		text string
		to   *int64
	}{{writes, &parsed.PartitionWriteUnits}, {reads, &parsed.PartitionReadUnits}} {
		n, err := strconv.ParseInt(part.text, 10, 64)
		if err != nil || n < 0 || n > maxLimit {
			return &OptionError{Option: "limits", Value: s, Problem: fmt.Sprintf(`has %q where a whole number of units from 0 to %d belongs`, part.text, maxLimit)}
		}
		*part.to = n
	}
	*l = parsed
	return nil
}

// validate reports an invalid limit as an *[OptionError].
func (l Limits) validate() error {
	for _, f := range []struct {
		name  string
		units int64
	}{
		{"PartitionWriteUnits", l.PartitionWriteUnits},
		{"PartitionReadUnits", l.PartitionReadUnits},
		{"OnDemandWriteUnits", l.OnDemandWriteUnits},
		{"OnDemandReadUnits", l.OnDemandReadUnits},
		{"QuotaWriteUnits", l.QuotaWriteUnits},
		{"QuotaReadUnits", l.QuotaReadUnits},
	} {
		if f.units < 0 || f.units > maxLimit {
			return &OptionError{Option: "Limits." + f.name, Value: strconv.FormatInt(f.units, 10), Problem: fmt.Sprintf("is not from 0 to %d", maxLimit)}
		}
	}
	if l.Burst < 0 || l.Burst > maxBurst {
		return &OptionError{Option: "Limits.Burst", Value: l.Burst.String(), Problem: fmt.Sprintf("is not from 0 to %v", maxBurst)}
	}
	return nil
}

// meter returns the meter of a table or an index that is created now, or gives the meter that it has
// another capacity. Provisioned is the throughput of a table or an index that is not on-demand.
func (l Limits) meter(has *wall.Meter, now time.Time, billing types.BillingMode, provisioned types.ProvisionedThroughput) *wall.Meter {
	if has == nil {
		return wall.New(now, throughput(l.PartitionReadUnits, l.PartitionWriteUnits), l.capacity(billing, provisioned))
	}
	has.Configure(now, l.capacity(billing, provisioned))
	return has
}

// capacity returns how much a table or an index may use over all its partitions.
func (l Limits) capacity(billing types.BillingMode, provisioned types.ProvisionedThroughput) wall.Capacity {
	switch {
	case billing == types.BillingModePayPerRequest:
		return wall.Capacity{
			Initial: throughput(l.OnDemandReadUnits, l.OnDemandWriteUnits),
			Quota:   throughput(l.QuotaReadUnits, l.QuotaWriteUnits),
		}
	case l.Provisioned:
		return wall.Capacity{
			Provisioned: throughput(aws.ToInt64(provisioned.ReadCapacityUnits), aws.ToInt64(provisioned.WriteCapacityUnits)),
			Burst:       l.Burst,
		}
	default:
		return wall.Capacity{}
	}
}

// throughput converts units to what the meters count.
func throughput(reads, writes int64) wall.Throughput {
	return wall.Throughput{
		Read:  int64(table.Unit) * min(reads, maxLimit),
		Write: int64(table.Unit) * min(writes, maxLimit),
	}
}
