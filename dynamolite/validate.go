package dynamolite

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// maxItem is the size limit of an item in bytes.
const maxItem = 400 * 1024

func checkTableName(name string) error { return checkName("tableName", name) }

// checkName validates the name of a table or an index.
func checkName(field, name string) error {
	if len(name) < minNameLength || len(name) > maxNameLength {
		return validationf("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must have length between %d and %d",
			name, field, minNameLength, maxNameLength)
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
		default:
			return validationf("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+",
				name, field)
		}
	}
	return nil
}

// badEnum returns the error for a value that is not an allowed one.
func badEnum(field, got, allowed string) error {
	return validationf("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must satisfy enum value set: [%s]", got, field, allowed)
}

func checkConsumedCapacity(v types.ReturnConsumedCapacity) error {
	switch v {
	case "", types.ReturnConsumedCapacityNone, types.ReturnConsumedCapacityTotal, types.ReturnConsumedCapacityIndexes:
		return nil
	default:
		return badEnum("returnConsumedCapacity", string(v), "INDEXES, TOTAL, NONE")
	}
}

// checkMetrics accepts both choices.
func checkMetrics(v types.ReturnItemCollectionMetrics) error {
	switch v {
	case "", types.ReturnItemCollectionMetricsNone, types.ReturnItemCollectionMetricsSize:
		return nil
	default:
		return badEnum("returnItemCollectionMetrics", string(v), "SIZE, NONE")
	}
}

func checkReturns(c types.ReturnConsumedCapacity, m types.ReturnItemCollectionMetrics) error {
	if err := checkConsumedCapacity(c); err != nil {
		return err
	}
	return checkMetrics(m)
}

// wantsOldOnFailure reads ReturnValuesOnConditionCheckFailure.
func wantsOldOnFailure(v types.ReturnValuesOnConditionCheckFailure) (bool, error) {
	switch v {
	case "", types.ReturnValuesOnConditionCheckFailureNone:
		return false, nil
	case types.ReturnValuesOnConditionCheckFailureAllOld:
		return true, nil
	default:
		return false, badEnum("returnValuesOnConditionCheckFailure", string(v), "ALL_OLD, NONE")
	}
}

// wantsOld reads the ReturnValues of a put or a delete.
func wantsOld(v types.ReturnValue) (bool, error) {
	switch v {
	case "", types.ReturnValueNone:
		return false, nil
	case types.ReturnValueAllOld:
		return true, nil
	case types.ReturnValueAllNew, types.ReturnValueUpdatedOld, types.ReturnValueUpdatedNew:
		return false, validation("Return values set to invalid value")
	default:
		return false, badEnum("returnValues", string(v), "ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW")
	}
}

// newEnv binds the names and values of a request with the given expressions, nil where absent. If
// all are absent, it returns nil, and no environment is needed.
func newEnv(names map[string]string, values value.Item, expressions ...*string) (*expr.Env, error) {
	present := false
	for _, e := range expressions {
		present = present || e != nil
	}
	switch {
	case names != nil && !present:
		return nil, validation("ExpressionAttributeNames can only be specified when using expressions")
	case values != nil && !present:
		return nil, validation("ExpressionAttributeValues can only be specified when using expressions")
	case !present:
		return nil, nil
	case names != nil && len(names) == 0:
		return nil, validation("ExpressionAttributeNames must not be empty")
	case values != nil && len(values) == 0:
		return nil, validation("ExpressionAttributeValues must not be empty")
	}
	return expr.NewEnv(names, values), nil
}

// unused returns an error for names and values that no expression of the request uses.
func unused(env *expr.Env) error {
	if env == nil {
		return nil
	}
	return env.Unused()
}

// legacy is a parameter that expressions replaced.
type legacy struct {
	name    string
	present bool
}

func refuseLegacy(parameters ...legacy) error {
	for _, p := range parameters {
		if p.present {
			return unsupported("The legacy parameter "+p.name, "use an expression")
		}
	}
	return nil
}
