package dynamolite_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

const throttledARN = "arn:aws:dynamodb:dynamolite:000000000000:table/T"

func TestThrottled(t *testing.T) {
	t.Parallel()
	const (
		provisioned = types.BillingModeProvisioned
		onDemand    = types.BillingModePayPerRequest
	)
	for _, tt := range []struct {
		billing types.BillingMode
		op      wall.Op
		level   wall.Level
		index   string
		reason  string
		message string
	}{
		{provisioned, wall.Write, wall.Provisioned, "", "TableWriteProvisionedThroughputExceeded", "provisioned throughput for the table was exceeded"},
		{"", wall.Read, wall.Provisioned, "", "TableReadProvisionedThroughputExceeded", "provisioned throughput for the table was exceeded"},
		{provisioned, wall.Write, wall.Provisioned, "x", "IndexWriteProvisionedThroughputExceeded", "for one or more global secondary indexes"},
		{provisioned, wall.Read, wall.Provisioned, "x", "IndexReadProvisionedThroughputExceeded", "for one or more global secondary indexes"},
		{provisioned, wall.Write, wall.KeyRange, "", "TableWriteKeyRangeThroughputExceeded", "provisioned throughput for the table was exceeded"},
		{provisioned, wall.Write, wall.KeyRange, "x", "IndexWriteKeyRangeThroughputExceeded", "for one or more global secondary indexes"},
		{onDemand, wall.Write, wall.KeyRange, "", "TableWriteKeyRangeThroughputExceeded", "current capacity of your table or index"},
		{onDemand, wall.Read, wall.KeyRange, "", "TableReadKeyRangeThroughputExceeded", "current capacity of your table or index"},
		{onDemand, wall.Write, wall.KeyRange, "x", "IndexWriteKeyRangeThroughputExceeded", "for one or more global secondary indexes"},
		{onDemand, wall.Read, wall.KeyRange, "x", "IndexReadKeyRangeThroughputExceeded", "current capacity of your table or index"},
		{onDemand, wall.Write, wall.AccountLimit, "", "TableWriteAccountLimitExceeded", "quota for your account"},
		{onDemand, wall.Read, wall.AccountLimit, "x", "IndexReadAccountLimitExceeded", "quota for your account"},
	} {
		refusal := dynamolite.Throttle{Op: tt.op, Level: tt.level, ARN: throttledARN, Index: tt.index, Billing: tt.billing}
		err := dynamolite.Throttled(refusal)
		message, reasons := "", []types.ThrottlingReason(nil)
		if tt.billing == onDemand {
			if e, ok := errors.AsType[*types.ThrottlingException](err); ok {
				message, reasons = e.ErrorMessage(), e.ThrottlingReasons
			}
		} else if e, ok := errors.AsType[*types.ProvisionedThroughputExceededException](err); ok {
			message, reasons = e.ErrorMessage(), e.ThrottlingReasons
		}
		resource := throttledARN
		if tt.index != "" {
			resource += "/index/" + tt.index
		}
		if len(reasons) != 1 || *reasons[0].Reason != tt.reason || *reasons[0].Resource != resource {
			t.Errorf("%+v: got %#v, want the reason %s of %s", refusal, err, tt.reason, resource)
		}
		if !strings.Contains(message, tt.message) {
			t.Errorf("%+v: the message %q does not mention %q", refusal, message, tt.message)
		}
		code := map[bool]string{false: "ProvisionedThroughputExceeded", true: "ThrottlingError"}[tt.billing == onDemand]
		if c := refusal.Cancellation(); *c.Code != code || *c.Message != message || c.Item != nil {
			t.Errorf("%+v: cancels with %s: %s; want %s and the message of the error", refusal, *c.Code, *c.Message, code)
		}
		if retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err).Bool() != true {
			t.Errorf("%+v: the SDK does not retry %v", refusal, err)
		}
	}
}

// The error names all refusals; the first one decides the message.
func TestThrottledByMany(t *testing.T) {
	t.Parallel()
	err := dynamolite.Throttled(
		dynamolite.Throttle{Op: wall.Write, Level: wall.Provisioned, ARN: throttledARN, Index: "a"},
		dynamolite.Throttle{Op: wall.Write, Level: wall.KeyRange, ARN: throttledARN},
		dynamolite.Throttle{Op: wall.Write, Level: wall.KeyRange, ARN: throttledARN, Index: "b"},
	)
	e, ok := errors.AsType[*types.ProvisionedThroughputExceededException](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, r := range e.ThrottlingReasons {
		got = append(got, *r.Reason+" "+strings.TrimPrefix(*r.Resource, throttledARN))
	}
	want := "IndexWriteProvisionedThroughputExceeded /index/a, TableWriteKeyRangeThroughputExceeded , IndexWriteKeyRangeThroughputExceeded /index/b"
	if list := strings.Join(got, ", "); list != want {
		t.Errorf("reasons %s, want %s", list, want)
	}
	if !strings.Contains(e.ErrorMessage(), "global secondary indexes") {
		t.Errorf("the message %q is not that of the first", e.ErrorMessage())
	}
}
