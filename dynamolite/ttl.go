package dynamolite

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// expiredYears is for how long an item may have been expired: one that has been for longer is taken for
// a mistake and kept.
const expiredYears = 5

// UpdateTimeToLive names the attribute that holds when an item expires, in seconds since 1970, or
// ends expiry. It is in force at once, and, unlike on AWS, can be changed again at once. A sweep
// deletes expired items at the next multiple of Options.SweepInterval, which is not billed; until then they are
// there. What is not a number, and what lies more than five years back, does not expire.
//
// Enabling what is enabled, disabling what is not, and naming another attribute than the one in force are
// ValidationExceptions.
func (db *DB) UpdateTimeToLive(ctx context.Context, in *dynamodb.UpdateTimeToLiveInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error) {
	return run(ctx, db, opUpdateTimeToLive, in, (*DB).updateTimeToLive)
}

func (db *DB) updateTimeToLive(c *call, in *dynamodb.UpdateTimeToLiveInput) (*dynamodb.UpdateTimeToLiveOutput, error) {
	t, err := db.table(c, in.TableName)
	if err != nil {
		return nil, err
	}
	spec := in.TimeToLiveSpecification
	switch {
	case spec == nil:
		return nil, missing("TimeToLiveSpecification")
	case spec.AttributeName == nil:
		return nil, missing("AttributeName")
	case spec.Enabled == nil:
		return nil, missing("Enabled")
	case *spec.AttributeName == "" || len(*spec.AttributeName) > maxAttribute:
		return nil, validationf("1 validation error detected: Value '%s' at 'timeToLiveSpecification.attributeName' failed to satisfy constraint: "+
			"Member must have length between 1 and %d", *spec.AttributeName, maxAttribute)
	}
	attribute, enabled := *spec.AttributeName, *spec.Enabled
	if err := db.alter(c, t, func(s *schema) error { return s.setExpiry(attribute, enabled, &db.sweeper) }); err != nil {
		return nil, err
	}
	if enabled {
		db.startSweeping()
	}
	return &dynamodb.UpdateTimeToLiveOutput{
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attribute), Enabled: aws.Bool(enabled)},
	}, nil
}

// setExpiry switches expiry on or off.
func (s *schema) setExpiry(attribute string, enabled bool, sweeper *sweeper) error {
	switch current := s.expiry(); {
	case current != "" && current != attribute:
		return validationf("TimeToLive is active on a different AttributeName: current AttributeName is %s", current)
	case enabled && current != "":
		return validationf("TimeToLive is already enabled")
	case enabled:
		s.expiries = &expiries{attribute: attribute, sweeper: sweeper}
	case current == "":
		return validationf("TimeToLive is already disabled")
	default:
		s.expiries = nil
	}
	return nil
}

// expiry is the attribute that holds an item's time to live; "": none.
func (s *schema) expiry() string {
	if s.expiries == nil {
		return ""
	}
	return s.expiries.attribute
}

// DescribeTimeToLive tells the attribute that holds when an item expires, if there is one.
func (db *DB) DescribeTimeToLive(ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	return run(ctx, db, opDescribeTimeToLive, in, (*DB).describeTimeToLive)
}

func (db *DB) describeTimeToLive(c *call, in *dynamodb.DescribeTimeToLiveInput) (*dynamodb.DescribeTimeToLiveOutput, error) {
	defer c.seesAll(db)
	t, err := db.table(c, in.TableName)
	if err != nil {
		return nil, err
	}
	d := &types.TimeToLiveDescription{TimeToLiveStatus: types.TimeToLiveStatusDisabled}
	if attribute := t.schema().expiry(); attribute != "" {
		d.TimeToLiveStatus, d.AttributeName = types.TimeToLiveStatusEnabled, aws.String(attribute)
	}
	return &dynamodb.DescribeTimeToLiveOutput{TimeToLiveDescription: d}, nil
}

// past is the span of time, in seconds since 1970, in which what is expired has expired.
type past struct{ from, to int64 } // to is not in it

func pastOf(now time.Time) past {
	return past{from: now.AddDate(-expiredYears, 0, 0).Unix(), to: now.Unix()}
}

// has tells whether the span has an instant.
func (p past) has(at int64) bool { return p.from <= at && at < p.to }

// expiryOf returns when an item expires by an attribute, in seconds since 1970, or never. A number beyond an int64
// counts as never: it is not in the past five years.
func expiryOf(r *record, attribute string) int64 {
	digits, ok := value.LookupNumber(r.data, attribute)
	if !ok {
		return never
	}
	whole, _, _ := strings.Cut(digits, ".")
	at, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return never
	}
	return at
}
