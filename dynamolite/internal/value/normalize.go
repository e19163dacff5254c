package value

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// maxNameLength is the limit of a name in bytes.
const maxNameLength = 65535

var (
	// The wording is that of AWS, its capitals and missing full stops included.
	errEmpty = &Error{"Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"}
	errDepth = &Error{"Nesting Levels have exceeded supported limits"}
	errNull  = &Error{"One or more parameter values were invalid: Null attribute value types must have the value of true"}
	errName  = &Error{"One or more parameter values were invalid: Attribute names must be between 1 and 65535 bytes long"}
)

// Normalize returns a fresh copy of v with its numbers in stored form: plain notation without
// needless zeros or signs. Like DynamoDB, it returns an [*Error] for a value of no type, and
// for a NULL that is false. It also returns one for a number that is malformed, out of range, or has
// more than 38 significant digits. Sets must not be empty or hold a member twice. Names must
// not be empty or too long. At most [MaxDepth] lists and maps may be nested.
//
// Checking and copying are one walk. The item of a put is the caller's own memory. With two walks,
// a caller could change a value after the check. Strings cannot change and are shared; byte slices
// are copied.
func Normalize(v AV) (AV, error) {
	var k Slab
	return k.normalize(v, 1, 0)
}

// NormalizeItem is [Normalize] for every attribute of an item. nil becomes an empty item.
func NormalizeItem(item Item) (Item, error) {
	var k Slab
	return k.normalizeItem(item, 0)
}

// Check returns v itself if it is acceptable and already in stored form, else the result of
// [Normalize]. It is for values that are read and not kept.
//
// Most operands of expressions are strings and small integers, so most cost nothing here. Such a
// result may be the caller's own; everything else is a fresh copy.
func Check(v AV) (AV, error) {
	switch w := v.(type) {
	case *types.AttributeValueMemberS:
		if w != nil {
			return v, nil
		}
	case *types.AttributeValueMemberN:
		if w != nil {
			if _, ok := smallInt(w.Value); ok {
				return v, nil
			}
		}
	}
	return Normalize(v)
}

// normalize makes a copy of v, which is inside depth lists and maps. A pointer may be nil inside
// its interface, which only a caller in this process can build. It has a type and no value, so it
// counts as a value of no type.
func (k *Slab) normalize(v AV, more, depth int) (AV, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		if v != nil {
			return k.Clone(v, more), nil
		}
	case *types.AttributeValueMemberN:
		if v != nil {
			n, err := normalNumber(v.Value)
			if err != nil {
				return nil, err
			}
			return k.Number(n, more), nil
		}
	case *types.AttributeValueMemberB:
		if v != nil {
			return k.Clone(v, more), nil
		}
	case *types.AttributeValueMemberBOOL:
		if v != nil {
			return k.Clone(v, more), nil
		}
	case *types.AttributeValueMemberNULL:
		if v != nil {
			if !v.Value {
				return nil, errNull
			}
			return k.Clone(v, more), nil
		}
	default:
		return k.normalizeCompound(v, depth)
	}
	return nil, errEmpty
}

// normalizeCompound is normalize for lists, maps and sets, and for a value of no type.
func (k *Slab) normalizeCompound(v AV, depth int) (AV, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberL:
		if v != nil {
			return k.normalizeList(v, depth+1)
		}
	case *types.AttributeValueMemberM:
		if v != nil {
			item, err := k.normalizeItem(v.Value, depth+1)
			if err != nil {
				return nil, err
			}
			p := take(&k.m, 1)
			p.Value = item
			return p, nil
		}
	case *types.AttributeValueMemberSS:
		if v != nil {
			if err := checkSet("string", v.Value); err != nil {
				return nil, err
			}
			return k.cloneSet(v), nil
		}
	case *types.AttributeValueMemberNS:
		if v != nil {
			return k.normalizeNumberSet(v)
		}
	case *types.AttributeValueMemberBS:
		if v != nil {
			if err := checkSet("binary", binaryMembers(v.Value)); err != nil {
				return nil, err
			}
			return k.cloneSet(v), nil
		}
	}
	return nil, errEmpty
}

// normalizeItem copies a map that is inside depth lists and maps, itself included; an item counts
// 0. The depth is checked before the contents, so a value that is nested without end costs no more
// than [MaxDepth] levels.
func (k *Slab) normalizeItem(item Item, depth int) (Item, error) {
	if depth > MaxDepth {
		return nil, errDepth
	}
	out := make(Item, len(item))
	more := len(item)
	for name, v := range item {
		if name == "" || len(name) > maxNameLength {
			return nil, errName
		}
		w, err := k.normalize(v, more, depth)
		if err != nil {
			return nil, err
		}
		out[name] = w
		more--
	}
	return out, nil
}

func (k *Slab) normalizeList(l *types.AttributeValueMemberL, depth int) (AV, error) {
	if depth > MaxDepth {
		return nil, errDepth
	}
	p := take(&k.l, 1)
	p.Value = make([]AV, len(l.Value))
	for i, v := range l.Value {
		w, err := k.normalize(v, len(l.Value)-i, depth)
		if err != nil {
			return nil, err
		}
		p.Value[i] = w
	}
	return p, nil
}

// normalizeNumberSet looks for duplicates after the numbers are in stored form: 1 and 1.0 are the
// same member.
func (k *Slab) normalizeNumberSet(v *types.AttributeValueMemberNS) (AV, error) {
	members := make([]string, len(v.Value))
	for i, s := range v.Value {
		n, err := normalNumber(s)
		if err != nil {
			return nil, err
		}
		members[i] = n
	}
	if err := checkSet("number", members); err != nil {
		return nil, err
	}
	p := take(&k.ns, 1)
	p.Value = members
	return p, nil
}

// checkSet returns an error for a set that is empty or has a member twice. It compares strings, so
// numbers must be in stored form.
func checkSet(kind string, members []string) error {
	switch {
	case len(members) == 0 && kind == "binary":
		return &Error{"One or more parameter values were invalid: Binary sets should not be empty"}
	case len(members) == 0:
		return &Error{fmt.Sprintf("One or more parameter values were invalid: An %s set  may not be empty", kind)} // AWS has two spaces
	}
	if hasDuplicates(members) {
		if kind == "binary" {
			return &Error{"One or more parameter values were invalid: Input collection of binaries contains duplicates."}
		}
		return &Error{fmt.Sprintf("One or more parameter values were invalid: Input collection [%s] contains duplicates.", strings.Join(members, ", "))}
	}
	return nil
}
