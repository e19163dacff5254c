package request

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// Throttle is one refusal of a request: the limit that refused it, and of which table or index.
type Throttle struct {
	Op      wall.Op
	Level   wall.Level // not wall.Admitted
	ARN     string     // of the table
	Index   string     // the global secondary index, or "" for the table
	Billing types.BillingMode
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
func (t *Throttle) reason() types.ThrottlingReason {
	name, resource := "Table", t.ARN
	if t.Index != "" {
		name, resource = "Index", api.IndexARN(t.ARN, t.Index)
	}
	if t.Op == wall.Read {
		name += "Read"
	} else {
		name += "Write"
	}
	switch t.Level {
	case wall.Provisioned:
		name += "ProvisionedThroughputExceeded"
	case wall.AccountLimit:
		name += "AccountLimitExceeded"
	default:
		name += "KeyRangeThroughputExceeded"
	}
	return types.ThrottlingReason{Reason: &name, Resource: &resource}
}

func (t *Throttle) onDemand() bool { return t.Billing == types.BillingModePayPerRequest }

func (t *Throttle) message() string {
	switch {
	case t.Level == wall.AccountLimit:
		return throttledAccount
	case t.onDemand() && t.Index != "" && t.Op == wall.Write:
		return throttledOnDemandIndex
	case t.onDemand():
		return throttledOnDemand
	case t.Index != "":
		return throttledIndex
	default:
		return throttledTable
	}
}

// Throttled returns the error of a request that was refused for one reason or several; the first
// one decides the type. A provisioned table or index answers with a
// *types.ProvisionedThroughputExceededException, even if a partition is full ("Diagnosing
// throttling", step 1). An on-demand one answers with a *types.ThrottlingException ("Error
// handling with DynamoDB"; for an index that is full on a write: "Understanding global secondary
// index (GSI) write throttling and back pressure"). The SDKs retry both.
func Throttled(refusals ...Throttle) error {
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

// Cancellation returns the reason that the refusal of one operation adds to the cancellation of
// its transaction. Codes and texts are those of TransactionCanceledException. A reason there has
// no room for the resource.
func (t *Throttle) Cancellation() types.CancellationReason {
	code := "ProvisionedThroughputExceeded"
	if t.onDemand() {
		code = "ThrottlingError"
	}
	return types.CancellationReason{Code: &code, Message: aws.String(t.message())}
}
