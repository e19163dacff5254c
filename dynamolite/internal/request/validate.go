package request

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// maxItem is the size limit of an item in bytes. AWS: an item has at most 400 KB, names and values
// together ("Quotas in Amazon DynamoDB").
const maxItem = 400 * 1024

// CheckConsumedCapacity validates ReturnConsumedCapacity.
func CheckConsumedCapacity(v types.ReturnConsumedCapacity) error {
	return api.OneOfOrNone("returnConsumedCapacity", v,
		types.ReturnConsumedCapacityIndexes, types.ReturnConsumedCapacityTotal, types.ReturnConsumedCapacityNone)
}

// CheckReturns validates what a write shall return of its capacity and its collection. Both errors
// are reported at once, as AWS does for all members that do not fit its model.
func CheckReturns(c types.ReturnConsumedCapacity, m types.ReturnItemCollectionMetrics) error {
	return api.AllUnfit(CheckConsumedCapacity(c), api.OneOfOrNone("returnItemCollectionMetrics", m,
		types.ReturnItemCollectionMetricsSize, types.ReturnItemCollectionMetricsNone))
}

// checkReturnValues validates ReturnValues, of which puts and deletes know only some.
func checkReturnValues(v types.ReturnValue) error {
	return api.OneOfOrNone("returnValues", v,
		types.ReturnValueAllNew, types.ReturnValueUpdatedOld, types.ReturnValueAllOld, types.ReturnValueNone, types.ReturnValueUpdatedNew)
}

// NewEnv binds the names and values of a request with the given expressions, nil where absent. If
// all are absent, it returns nil, and no environment is needed. Absent is then what AWS says of the
// expressions that could use values, "" if it is not known. The expressions share one environment,
// so that a name is unused only if none of them uses it.
func NewEnv(absent string, names map[string]string, values value.Item, expressions ...*string) (*expr.Env, error) {
	present := false
	for _, e := range expressions {
		present = present || e != nil
	}
	switch {
	case names != nil && !present:
		return nil, api.Validation("ExpressionAttributeNames can only be specified when using expressions")
	case values != nil && !present:
		message := "ExpressionAttributeValues can only be specified when using expressions"
		if absent != "" {
			message += ": " + absent
		}
		return nil, api.Validation(message)
	case !present:
		return nil, nil
	case names != nil && len(names) == 0:
		return nil, api.Validation("ExpressionAttributeNames must not be empty")
	case values != nil && len(values) == 0:
		return nil, api.Validation("ExpressionAttributeValues must not be empty")
	}
	return expr.NewEnv(names, values), nil
}

// Unused returns an error for names and values that no expression of the request uses. It comes
// after all parsing, because parsing is what uses a name.
func Unused(env *expr.Env) error {
	if env == nil {
		return nil
	}
	return env.Unused()
}

// parameters are some of those that an operation has, in the order in which AWS names them.
type parameters []struct {
	name    string
	present bool
}

// present returns the names of those that the request has.
func (ps parameters) present() (names []string) {
	for _, p := range ps {
		if p.present {
			names = append(names, p.name)
		}
	}
	return names
}

// refuseLegacy refuses the parameters that expressions replaced. The error is AWS's if the request
// has expressions, too. The engine leaves these parameters out by choice (docs/engine.md). Ignoring
// them would be worse: a write with Expected would then ignore its condition.
func refuseLegacy(legacy, expressions parameters) error {
	old := legacy.present()
	if old == nil {
		return nil
	}
	if texts := expressions.present(); texts != nil {
		return api.Validationf("Can not use both expression and non-expression parameters in the same request: "+
			"Non-expression parameters: {%s} Expression parameters: {%s}", strings.Join(old, ", "), strings.Join(texts, ", "))
	}
	return api.Unsupported("The legacy parameter "+old[0], "use an expression")
}
