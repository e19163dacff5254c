package dynamolite

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// Limits is the throughput that tables and their global secondary indexes have, each for itself, in
// units per second. A request beyond it is throttled with the error that DynamoDB gives. The zero value
// limits nothing; [AWSLimits] is what AWS does.
//
// A request is admitted while there is anything left and is charged what it did cost, so a
// bucket may be overdrawn by one request. What is charged is the consumed capacity, that of failed conditions
// included; a request that was throttled is charged nothing. A write needs room in the table and in every
// index that it changes, so an index that is full throttles writes to the table.
type Limits struct {
	// PartitionWriteUnits and PartitionReadUnits are what one partition key value of a table or an
	// index serves. No credit accrues beyond one second. 0: no limit.
	PartitionWriteUnits, PartitionReadUnits int64

	// Provisioned holds provisioned tables and indexes to their provisioned throughput. Default: they
	// serve anything.
	Provisioned bool
	// Burst is how much of the provisioned throughput is kept when it is not used, at most ten minutes
	// of it. A new table has one second's worth. Default: a second.
	Burst time.Duration

	// OnDemandWriteUnits and OnDemandReadUnits are what a new on-demand table or index serves with
	// all its partitions. It grows to double the best minute that ended 30 minutes ago or
	// earlier, and never shrinks. 0: any table serves anything.
	OnDemandWriteUnits, OnDemandReadUnits int64
	// QuotaWriteUnits and QuotaReadUnits are what no on-demand table or index grows beyond. 0: no limit.
	QuotaWriteUnits, QuotaReadUnits int64
}

// AWSLimits is what AWS documents:
//
//   - 1,000 WCU and 3,000 RCU per second and partition ("Best practices for designing and using partition keys
//     effectively in DynamoDB"), which a hot key value has for itself ("DynamoDB burst and adaptive
//     capacity");
//   - 300 seconds of unused provisioned throughput kept (ibid.), which lifts the limit of a table or an
//     index, never that of a partition;
//   - 4,000 WCU and 12,000 RCU per second for a new on-demand table, later double its previous peak
//     ("DynamoDB on-demand capacity mode");
//   - 40,000 of each for an on-demand table ("Quotas in Amazon DynamoDB", the default of an account).
func AWSLimits() Limits {
	return Limits{
		PartitionWriteUnits: 1_000, PartitionReadUnits: 3_000,
		Provisioned: true, Burst: 300 * time.Second,
		OnDemandWriteUnits: 4_000, OnDemandReadUnits: 12_000,
		QuotaWriteUnits: 40_000, QuotaReadUnits: 40_000,
	}
}

const (
	maxLimit = 1_000_000        // units per second: what exact arithmetic has room for
	maxBurst = 10 * time.Minute // likewise
)

// ParseLimits reads what a command line says: "off" is no limits, "aws" is [AWSLimits], and "WCU,RCU" such
// as "1000,3000" limits partitions alone, where 0 is no limit. Anything else is an *[OptionError].
func ParseLimits(s string) (Limits, error) {
	switch s {
	case "off":
		return Limits{}, nil
	case "aws":
		return AWSLimits(), nil
	}
	var l Limits
	writes, reads, ok := strings.Cut(s, ",")
	if !ok {
		return Limits{}, &OptionError{Option: "limits", Value: s, Problem: `is neither "aws" nor "off" nor "WCU,RCU", such as "1000,3000"`}
	}
	for _, part := range []struct {
		text string
		to   *int64
	}{{writes, &l.PartitionWriteUnits}, {reads, &l.PartitionReadUnits}} {
		n, err := strconv.ParseInt(part.text, 10, 64)
		if err != nil || n < 0 || n > maxLimit {
			return Limits{}, &OptionError{Option: "limits", Value: s, Problem: fmt.Sprintf(`has %q where a whole number of units from 0 to %d belongs`, part.text, maxLimit)}
		}
		*part.to = n
	}
	return l, nil
}

// validate says what is wrong with the limits, as an *[OptionError].
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

// meter makes the meter of a table or an index that is created now: nil, which costs nothing, if
// there are no limits. Provisioned is its throughput if it is not on-demand.
func (l Limits) meter(now time.Time, billing types.BillingMode, provisioned types.ProvisionedThroughput) *wall.Meter {
	if l == (Limits{}) {
		return nil
	}
	return wall.New(now, throughput(l.PartitionReadUnits, l.PartitionWriteUnits), l.capacity(billing, provisioned))
}

// capacity is what a table or an index with all its partitions may use. With
// [wall.Meter.Configure] it takes effect on one that exists.
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

// throughput is units as the meters count them.
func throughput(reads, writes int64) wall.Throughput {
	return wall.Throughput{
		Read:  int64(unit) * min(reads, maxLimit),
		Write: int64(unit) * min(writes, maxLimit),
	}
}
