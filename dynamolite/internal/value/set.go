package value

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// fewMembers is the largest set for which a scan is faster than building an index.
const fewMembers = 12

// An index reports which strings are in a set.
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
// set.
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

// numberMembers returns the numbers in stored form: numbers itself if all of them are.
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

// HasMember reports whether member, an S, N or B, is in a set of its type.
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
// sets of one type.
func Union(a, b AV) (union AV, ok bool) {
	if !IsSet(a) || TypeName(a) != TypeName(b) {
		return nil, false
	}
	in := indexOf(members(a))
	return filter(a, b, func(m string) bool { return !in.has(m) }), true
}

// Minus returns a new set of the members of a that are not in b, or nil if none is left.
// Both are normalised. ok is false if they are not sets of one type.
func Minus(a, b AV) (rest AV, ok bool) {
	if !IsSet(a) || TypeName(a) != TypeName(b) {
		return nil, false
	}
	out := indexOf(members(b))
	return filter(nil, a, func(m string) bool { return !out.has(m) }), true
}

// filter returns base and those members of set that keep accepts, nil if the result is empty.
// base is nil or has the type of set.
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
