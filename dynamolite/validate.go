package dynamolite

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// maxItem is the size limit of an item in bytes.
const maxItem = 400 * 1024

func checkTableName(name string) error { return checkName("tableName", name, minNameLength) }

// checkName validates the name of a table or an index, which has a least length.
func checkName(field, name string, least int) error {
	switch {
	case len(name) < least:
		return unfit("'"+name+"'", field, fmt.Sprintf("Member must have length greater than or equal to %d", least))
	case len(name) > maxNameLength:
		return unfit("'"+name+"'", field, fmt.Sprintf("Member must have length less than or equal to %d", maxNameLength))
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
		default:
			return unfit("'"+name+"'", field, "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
		}
	}
	return nil
}

// unfitError is a ValidationException about a member that does not satisfy the API's model. AWS
// reports all such members of a request at once.
type unfitError struct{ details []string }

// Error returns the text of the ValidationException.
func (e *unfitError) Error() string {
	errors := "errors"
	if len(e.details) == 1 {
		errors = "error"
	}
	return fmt.Sprintf("%d validation %s detected: %s", len(e.details), errors, strings.Join(e.details, "; "))
}

// unfit returns the error for one member. Value is as in AWS's text: in quotes, or null.
func unfit(got, field, constraint string) error {
	return &unfitError{[]string{"Value " + got + " at '" + field + "' failed to satisfy constraint: " + constraint}}
}

// allUnfit returns one error for all members that are unfit, or nil. Other errors come first.
func allUnfit(errs ...error) error {
	var details []string
	for _, err := range errs {
		e, ok := errors.AsType[*unfitError](err)
		if err != nil && !ok {
			return err
		}
		if ok {
			details = append(details, e.details...)
		}
	}
	if len(details) == 0 {
		return nil
	}
	return &unfitError{details}
}

// inOrder returns the error that AWS returns. A table that does not exist is found out only after
// the members of the request, but an invalid name before them.
func inOrder(table error, members ...error) error {
	if _, ok := errors.AsType[*types.ResourceNotFoundException](table); table != nil && !ok {
		return table
	}
	if err := allUnfit(members...); err != nil {
		return err
	}
	return table
}

// badEnum returns the error for a value that is not an allowed one.
func badEnum(field, got, allowed string) error {
	return unfit("'"+got+"'", field, "Member must satisfy enum value set: ["+allowed+"]")
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
	return allUnfit(checkConsumedCapacity(c), checkMetrics(m))
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
// all are absent, it returns nil, and no environment is needed. Absent is then what AWS says of
// the expressions that could use values, "" if it is not known.
func newEnv(absent string, names map[string]string, values value.Item, expressions ...*string) (*expr.Env, error) {
	present := false
	for _, e := range expressions {
		present = present || e != nil
	}
	switch {
	case names != nil && !present:
		return nil, validation("ExpressionAttributeNames can only be specified when using expressions")
	case values != nil && !present:
		message := "ExpressionAttributeValues can only be specified when using expressions"
		if absent != "" {
			message += ": " + absent
		}
		return nil, validation(message)
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
// has expressions, too.
func refuseLegacy(legacy, expressions parameters) error {
	old := legacy.present()
	if old == nil {
		return nil
	}
	if texts := expressions.present(); texts != nil {
		return validationf("Can not use both expression and non-expression parameters in the same request: "+
			"Non-expression parameters: {%s} Expression parameters: {%s}", strings.Join(old, ", "), strings.Join(texts, ", "))
	}
	return unsupported("The legacy parameter "+old[0], "use an expression")
}
