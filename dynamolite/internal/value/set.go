package value

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// fewMembers is the largest set for which a scan is faster than building an index.
const fewMembers = 12

// An index reports which strings are in a set. many is nil for a set of up to fewMembers; few is
// nil for any other. The naive test of a union scans one set for each member of the other. For two
// sets of ten thousand that is a hundred million comparisons, under the lock of a shard.
type index struct {
	few  []string
	many map[string]struct{}
}

func indexOf(members []string) index {
	if len(members) <= fewMembers {
		return index{few: members}
	}
	many := make(map[string]struct{}, len(members))
	for _, m := range members {
		many[m] = struct{}{}
	}
	return index{many: many}
}

func (x index) has(s string) bool {
	if x.many == nil {
		return slices.Contains(x.few, s)
	}
	_, ok := x.many[s]
	return ok
}

// hasDuplicates reports whether a member appears twice. A map of all members is smaller than their
// number then.
func hasDuplicates(members []string) bool {
	if len(members) > fewMembers {
		return len(indexOf(members).many) != len(members)
	}
	for i, m := range members {
		if slices.Contains(members[:i], m) {
			return true
		}
	}
	return false
}

// members lists a set's members as strings that are equal if the members are; nil if v is not a
// set. Binaries become strings of the same bytes, so that one index serves all sets.
func members(v AV) []string {
	switch v := v.(type) {
	case *types.AttributeValueMemberSS:
		return v.Value
	case *types.AttributeValueMemberNS:
		return numberMembers(v.Value)
	case *types.AttributeValueMemberBS:
		return binaryMembers(v.Value)
	}
	return nil
}

// numberMembers returns the numbers in stored form: numbers itself if all of them are. A string
// that is not a number stays as it is. Stored sets are normalised, so the copy is for sets from
// elsewhere.
func numberMembers(numbers []string) []string {
	out := numbers
	for i, s := range numbers {
		n, err := normalNumber(s)
		if err != nil || n == s {
			continue
		}
		if &out[0] == &numbers[0] {
			out = slices.Clone(numbers)
		}
		out[i] = n
	}
	return out
}

// binaryMembers copies: a slice cannot be the key of a map.
func binaryMembers(binaries [][]byte) []string {
	out := make([]string, len(binaries))
	for i, b := range binaries {
		out[i] = string(b)
	}
	return out
}

// IsSet reports whether v is a string, number or binary set.
func IsSet(v AV) bool {
	switch v.(type) {
	case *types.AttributeValueMemberSS, *types.AttributeValueMemberNS, *types.AttributeValueMemberBS:
		return true
	}
	return false
}

// equalSets compares sets of one type. No set has a member twice, so two of equal length are equal
// if one has all members of the other.
func equalSets(a, b AV) bool {
	if !IsSet(a) || TypeName(a) != TypeName(b) {
		return false
	}
	x, y := members(a), members(b)
	if len(x) != len(y) {
		return false
	}
	in := indexOf(x)
	for _, m := range y {
		if !in.has(m) {
			return false
		}
	}
	return true
}

// HasMember reports whether member, an S, N or B, is in a set of its type. Numbers are compared by
// value and not by text.
func HasMember(set, member AV) bool {
	switch set := set.(type) {
	case *types.AttributeValueMemberSS:
		m, ok := member.(*types.AttributeValueMemberS)
		return ok && slices.Contains(set.Value, m.Value)
	case *types.AttributeValueMemberNS:
		m, ok := member.(*types.AttributeValueMemberN)
		return ok && slices.ContainsFunc(set.Value, func(n string) bool { return equalNumbers(n, m.Value) })
	case *types.AttributeValueMemberBS:
		m, ok := member.(*types.AttributeValueMemberB)
		return ok && slices.ContainsFunc(set.Value, func(b []byte) bool { return string(b) == string(m.Value) })
	}
	return false
}

// Union returns a new set of the members of a or b, both normalised; ok is false if they are not
// sets of one type. The members of a come first. The order means nothing: AWS promises none.
func Union(a, b AV) (union AV, ok bool) {
	if !IsSet(a) || TypeName(a) != TypeName(b) {
		return nil, false
	}
	in := indexOf(members(a))
	return filter(a, b, func(m string) bool { return !in.has(m) }), true
}

// Minus returns a new set of the members of a that are not in b, or nil if none is left. Both are
// normalised. ok is false if they are not sets of one type. nil stands for an empty set, which
// DynamoDB does not have.
func Minus(a, b AV) (rest AV, ok bool) {
	if !IsSet(a) || TypeName(a) != TypeName(b) {
		return nil, false
	}
	out := indexOf(members(b))
	return filter(nil, a, func(m string) bool { return !out.has(m) }), true
}

// filter returns base and those members of set that keep accepts, nil if the result is empty.
// base is nil or has the type of set.
//
// The slice is new, because a and b may be stored. The members are shared: both sets are
// normalised, so no caller can change their bytes.
func filter(base, set AV, keep func(string) bool) AV {
	switch set := set.(type) {
	case *types.AttributeValueMemberSS:
		if kept := pick(members(base), set.Value, keep); len(kept) > 0 {
			return &types.AttributeValueMemberSS{Value: kept}
		}
	case *types.AttributeValueMemberNS:
		if kept := pick(members(base), set.Value, keep); len(kept) > 0 {
			return &types.AttributeValueMemberNS{Value: kept}
		}
	case *types.AttributeValueMemberBS:
		var kept [][]byte
		if base, ok := base.(*types.AttributeValueMemberBS); ok {
			kept = slices.Clone(base.Value)
		}
		for _, b := range set.Value {
			if keep(string(b)) {
				kept = append(kept, b)
			}
		}
		if len(kept) > 0 {
			return &types.AttributeValueMemberBS{Value: kept}
		}
	}
	return nil
}

// pick returns base and what keep accepts of from, in a slice of its own: an append to base could
// write into a stored set.
func pick(base, from []string, keep func(string) bool) []string {
	kept := make([]string, len(base), len(base)+len(from))
	copy(kept, base)
	for _, m := range from {
		if keep(m) {
			kept = append(kept, m)
		}
	}
	return kept
}
