package dynamolite_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

func TestLimitsAreParsed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in      string
		want    dynamolite.Limits
		problem string
	}{
		{in: "off"},
		{in: "0,0"},
		{in: "aws", want: dynamolite.AWSLimits()},
		{in: "1000,3000", want: dynamolite.Limits{PartitionWriteUnits: 1000, PartitionReadUnits: 3000}},
		{in: "0,7", want: dynamolite.Limits{PartitionReadUnits: 7}},
		{in: "1000000,1", want: dynamolite.Limits{PartitionWriteUnits: 1e6, PartitionReadUnits: 1}},
		{in: "", problem: `neither "aws" nor "off"`},
		{in: "AWS", problem: `neither "aws" nor "off"`},
		{in: "1000", problem: `neither "aws" nor "off"`},
		{in: "1000,", problem: `has "" where`},
		{in: ",1000", problem: `has "" where`},
		{in: "-1,1", problem: `has "-1" where a whole number of units from 0 to 1000000 belongs`},
		{in: "1,0.5", problem: `has "0.5" where`},
		{in: "1,1000001", problem: `has "1000001" where`},
		{in: "1,2,3", problem: `has "2,3" where`},
		{in: "1, 2", problem: `has " 2" where`},
	} {
		got := dynamolite.Limits{QuotaReadUnits: 7}
		if tt.problem != "" {
			tt.want = got // an error changes nothing
		}
		err := got.UnmarshalText([]byte(tt.in))
		if tt.problem != "" {
			wantOptionError(t, err, "limits", tt.in, tt.problem)
		} else if err != nil {
			t.Errorf("%q: %v", tt.in, err)
		}
		if got != tt.want {
			t.Errorf("%q: %+v, want %+v", tt.in, got, tt.want)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%q: parsed, but %v", tt.in, err)
		}
	}
}

func TestLimitsAreValidated(t *testing.T) {
	t.Parallel()
	for option, set := range map[string]func(*dynamolite.Limits, int64){
		"Limits.PartitionWriteUnits": func(l *dynamolite.Limits, n int64) { l.PartitionWriteUnits = n },
		"Limits.PartitionReadUnits":  func(l *dynamolite.Limits, n int64) { l.PartitionReadUnits = n },
		"Limits.OnDemandWriteUnits":  func(l *dynamolite.Limits, n int64) { l.OnDemandWriteUnits = n },
		"Limits.OnDemandReadUnits":   func(l *dynamolite.Limits, n int64) { l.OnDemandReadUnits = n },
		"Limits.QuotaWriteUnits":     func(l *dynamolite.Limits, n int64) { l.QuotaWriteUnits = n },
		"Limits.QuotaReadUnits":      func(l *dynamolite.Limits, n int64) { l.QuotaReadUnits = n },
	} {
		l := dynamolite.AWSLimits()
		set(&l, 1_000_000)
		if err := l.Validate(); err != nil {
			t.Errorf("%s of a million: %v", option, err)
		}
		set(&l, 1_000_001)
		wantOptionError(t, l.Validate(), option, "1000001", "is not from 0 to 1000000")
		set(&l, -1)
		wantOptionError(t, l.Validate(), option, "-1", "is not from 0 to 1000000")
	}
	wantOptionError(t, dynamolite.Limits{Burst: -1}.Validate(), "Limits.Burst", "-1ns", "is not from 0 to 10m0s")
	wantOptionError(t, dynamolite.Limits{Burst: time.Hour}.Validate(), "Limits.Burst", "1h0m0s", "is not from 0 to 10m0s")
}

var limitsStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// serves returns how many requests of one unit a meter admits at an instant, up to 100,000, and
// the limit that stops the next. If spread is set, each request has its own partition.
func serves(m *wall.Meter, at time.Duration, op wall.Op, spread bool) (n int, why wall.Level) {
	now, p := limitsStart.Add(at), wall.Partition(1)
	for ; n < 100_000; n++ {
		if spread {
			p++
		}
		if why := m.Check(now, op, p); why != wall.Admitted {
			return n, why
		}
		m.Charge(now, op, p, 2)
	}
	return n, wall.Admitted
}

func TestMeterOfLimits(t *testing.T) {
	t.Parallel()
	const provisioned, onDemand = types.BillingModeProvisioned, types.BillingModePayPerRequest
	for _, tt := range []struct {
		name    string
		limits  dynamolite.Limits
		billing types.BillingMode
		op      wall.Op
		spread  bool
		at      time.Duration
		want    int
		why     wall.Level
	}{
		{"no limits", dynamolite.Limits{}, provisioned, wall.Write, false, 0, 100_000, wall.Admitted},
		{"AWS: writes to one key", dynamolite.AWSLimits(), onDemand, wall.Write, false, time.Hour, 1000, wall.KeyRange},
		{"AWS: reads of one key", dynamolite.AWSLimits(), onDemand, wall.Read, false, time.Hour, 3000, wall.KeyRange},
		{"AWS: writes to many keys", dynamolite.AWSLimits(), onDemand, wall.Write, true, time.Hour, 4000, wall.KeyRange},
		{"AWS: reads of many keys", dynamolite.AWSLimits(), onDemand, wall.Read, true, time.Hour, 12_000, wall.KeyRange},
		{"AWS: provisioned and new, writes", dynamolite.AWSLimits(), provisioned, wall.Write, true, 0, 10, wall.Provisioned},
		{"AWS: provisioned and new, reads", dynamolite.AWSLimits(), "", wall.Read, true, 0, 20, wall.Provisioned},
		{"AWS: provisioned and rested, writes", dynamolite.AWSLimits(), provisioned, wall.Write, true, time.Hour, 3000, wall.Provisioned},
		{"AWS: provisioned and rested, writes to one key", dynamolite.AWSLimits(), provisioned, wall.Write, false, time.Hour, 1000, wall.KeyRange},
		{"a partition alone, one key", dynamolite.Limits{PartitionWriteUnits: 7}, provisioned, wall.Write, false, 0, 7, wall.KeyRange},
		{"a partition alone, many keys", dynamolite.Limits{PartitionWriteUnits: 7}, provisioned, wall.Write, true, 0, 100_000, wall.Admitted},
		{"a partition's writes, reads", dynamolite.Limits{PartitionWriteUnits: 7}, provisioned, wall.Read, false, 0, 100_000, wall.Admitted},
		{"provisioned without burst", dynamolite.Limits{Provisioned: true}, provisioned, wall.Write, true, time.Hour, 10, wall.Provisioned},
		{"provisioned alone, on-demand", dynamolite.Limits{Provisioned: true}, onDemand, wall.Write, true, 0, 100_000, wall.Admitted},
		{"a quota", dynamolite.Limits{QuotaReadUnits: 5}, onDemand, wall.Read, true, 0, 5, wall.AccountLimit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := tt.limits.Meter(limitsStart, tt.billing, types.ProvisionedThroughput{ReadCapacityUnits: ptr(int64(20)), WriteCapacityUnits: ptr(int64(10))})
			if n, why := serves(m, tt.at, tt.op, tt.spread); n != tt.want || why != tt.why {
				t.Errorf("serves %d (%v), want %d (%v)", n, why, tt.want, tt.why)
			}
		})
	}
}

// A table provisioned with more than the meters can count gets the largest limit that they can
// count.
func TestHugeProvisionedThroughput(t *testing.T) {
	t.Parallel()
	m := dynamolite.AWSLimits().Meter(limitsStart, types.BillingModeProvisioned, types.ProvisionedThroughput{ReadCapacityUnits: ptr(int64(1) << 62), WriteCapacityUnits: ptr(int64(1) << 62)})
	for _, op := range []wall.Op{wall.Read, wall.Write} {
		for _, want := range []wall.Level{wall.Admitted, wall.Admitted, wall.Provisioned} {
			if why := m.Check(limitsStart, op, wall.NoPartition); why != want {
				t.Errorf("op %v: %v, want %v", op, why, want)
			}
			m.Charge(limitsStart, op, wall.NoPartition, 1_000_000)
		}
	}
}

// Without limits there is no meter, and no cost.
func TestNoLimitsNoMeter(t *testing.T) {
	t.Parallel()
	if m := (dynamolite.Limits{}).Meter(limitsStart, types.BillingModePayPerRequest, types.ProvisionedThroughput{}); m != nil {
		t.Error("there is a meter")
	}
}
