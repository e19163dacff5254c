// Package iamtrace says what IAM judges about a request: its actions, the resource of each
// action, and the partition keys that conditions on dynamodb:LeadingKeys compare.
//
// It derives this from the inputs of the SDK, and sends nothing. The rules are those of
// the Amazon DynamoDB Developer Guide and of the Service Authorization Reference. No test
// of this project compares them with AWS.
package iamtrace

import (
	"fmt"
	"slices"
	"strings"
)

// An Access is one action on one resource, which a policy allows or not. A request is
// allowed if a policy allows all its accesses.
type Access struct {
	// Action has the prefix of its service, such as "dynamodb:UpdateItem".
	Action string
	// Resource is the part of the ARN after region and account, such as
	// "table/limits/index/GSI1". For S3 it is "BUCKET" or "BUCKET/KEY". It is "*" for an
	// action that has no resources.
	Resource string
	// Transaction says that the action is part of a transaction.
	Transaction bool
	// LeadingKeys are the different partition keys that the action names, in order. On an
	// index they are keys of the index. It is nil if the request carries none: a condition
	// with ForAllValues then holds, whatever it compares.
	LeadingKeys []string
}

// transaction marks the action of an [Access] in its text.
const transaction = "@TransactWriteItems"

// String returns the access as one line, which [Parse] reads.
func (a Access) String() string {
	action := a.Action
	if a.Transaction {
		action += transaction
	}
	return strings.Join(append([]string{action, a.Resource}, a.LeadingKeys...), " ")
}

// Parse reads what [Access.String] returns. Keys must not have spaces.
func Parse(s string) (Access, error) {
	fields := strings.Split(s, " ")
	if len(fields) < 2 || slices.Contains(fields, "") {
		return Access{}, fmt.Errorf("access %q: want ACTION RESOURCE KEY…, separated by one space each", s)
	}
	a := Access{Resource: fields[1]}
	a.Action, a.Transaction = strings.CutSuffix(fields[0], transaction)
	if len(fields) > 2 {
		a.LeadingKeys = fields[2:]
	}
	return a, nil
}

// IsWrite reports whether the action changes items, objects or tables.
func (a Access) IsWrite() bool {
	_, verb, _ := strings.Cut(a.Action, ":")
	for _, reads := range []string{"Get", "BatchGet", "Query", "Scan", "Describe", "List", "ConditionCheck", "FilterLogEvents"} {
		if strings.HasPrefix(verb, reads) {
			return false
		}
	}
	return true
}
