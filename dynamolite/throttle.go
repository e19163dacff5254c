package dynamolite

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// throttle is one refusal of a request: the limit that refused it, and of which table or index.
type throttle struct {
	op      wall.Op
	level   wall.Level // not wall.Admitted
	arn     string     // of the table
	index   string     // the global secondary index, or "" for the table
	billing types.BillingMode
}

// The texts of DynamoDB. The documentation of TransactionCanceledException has those of the
// transaction ("TransactWriteItems", API reference), and single requests are refused with the
// same texts. The text of the quota is in the documentation of RequestLimitExceeded.
const (
	throttledTable = "The level of configured provisioned throughput for the table was exceeded. " +
		"Consider increasing your provisioning level with the UpdateTable API."
	throttledIndex = "The level of configured provisioned throughput for one or more global secondary indexes of the table was exceeded. " +
		"Consider increasing your provisioning level for the under-provisioned global secondary indexes with the UpdateTable API."
	throttledOnDemand = "Throughput exceeds the current capacity of your table or index. " +
		"DynamoDB is automatically scaling your table or index so please try again shortly. If exceptions persist, check if you have a hot key: " +
		"https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html."
	throttledOnDemandIndex = "Throughput exceeds the current capacity for one or more global secondary indexes. " +
		"DynamoDB is automatically scaling your index so please try again shortly."
	throttledAccount = "Throughput exceeds the current throughput quota for your account."
)

// reason returns the refusal as DynamoDB names it: the resource's kind, the operation, the limit,
// and the resource ("ThrottlingReason", API reference; the resource of an index as in "Diagnosing
// throttling").
func (t *throttle) reason() types.ThrottlingReason {
	name, resource := "Table", t.arn
	if t.index != "" {
		name, resource = "Index", indexARN(t.arn, t.index)
	}
	if t.op == wall.Read {
		name += "Read"
	} else {
		name += "Write"
	}
	switch t.level {
	case wall.Provisioned:
		name += "ProvisionedThroughputExceeded"
	case wall.AccountLimit:
		name += "AccountLimitExceeded"
	default:
		name += "KeyRangeThroughputExceeded"
	}
	return types.ThrottlingReason{Reason: &name, Resource: &resource}
}

func (t *throttle) onDemand() bool { return t.billing == types.BillingModePayPerRequest }

func (t *throttle) message() string {
	switch {
	case t.level == wall.AccountLimit:
		return throttledAccount
	case t.onDemand() && t.index != "" && t.op == wall.Write:
		return throttledOnDemandIndex
	case t.onDemand():
		return throttledOnDemand
	case t.index != "":
		return throttledIndex
	default:
		return throttledTable
	}
}

// throttled returns the error of a request that was refused for one reason or several; the first
// one decides the type. A provisioned table or index answers with a
// *types.ProvisionedThroughputExceededException, even if a partition is full ("Diagnosing
// throttling", step 1). An on-demand one answers with a *types.ThrottlingException ("Error
// handling with DynamoDB"; for an index that is full on a write: "Understanding global secondary
// index (GSI) write throttling and back pressure"). The SDKs retry both.
func throttled(refusals ...throttle) error {
	reasons := make([]types.ThrottlingReason, len(refusals))
	for i := range refusals {
		reasons[i] = refusals[i].reason()
	}
	first := &refusals[0]
	if first.onDemand() {
		return &types.ThrottlingException{Message: aws.String(first.message()), ThrottlingReasons: reasons}
	}
	return &types.ProvisionedThroughputExceededException{Message: aws.String(first.message()), ThrottlingReasons: reasons}
}

// cancellation returns the reason that the refusal of one operation adds to the cancellation of
// its transaction. Codes and texts are those of TransactionCanceledException. A reason there has
// no room for the resource.
func (t *throttle) cancellation() types.CancellationReason {
	code := "ProvisionedThroughputExceeded"
	if t.onDemand() {
		code = "ThrottlingError"
	}
	return types.CancellationReason{Code: &code, Message: aws.String(t.message())}
}
