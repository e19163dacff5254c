package expr

import "github.com/zeroae/zae-limiter-go/dynamolite/internal/value"

// A RangeOp is a comparison of a range key.
type RangeOp int

// The comparisons of a range key.
const (
	Eq RangeOp = iota
	Lt
	Le
	Gt
	Ge
	Between    // Low and High included
	BeginsWith // only for strings and binaries
)

// A RangeCondition selects range keys. High is set for [Between] only. The key is always on the
// left side: ":v < sk" has become "sk > :v".
type RangeCondition struct {
	Op        RangeOp
	Low, High value.AV
}

// A KeyCondition selects a partition and, unless Range is nil, range keys in it. Its values are
// in stored form, and not yet checked against the key schema's types. They may be the caller's
// own and must not be kept.
type KeyCondition struct {
	Hash  value.AV
	Range *RangeCondition
}

var (
	// The wording is that of AWS, which tells a hash key compared by another sign than = from one
	// that is compared twice.
	errNotSupported = &Error{"Query key condition not supported"}
	errTwice        = &Error{"KeyConditionExpressions must only contain one condition per key"}
	errNested       = &Error{"KeyConditionExpressions cannot contain nested operations"}
)

// ParseKeyCondition parses a KeyConditionExpression for a table or index with the given hash key
// and range key; rng is "" if it has none. The expression must be an equality for the hash key
// and at most one comparison of the range key. Any other is an [*Error].
//
// The grammar is that of all conditions, and the tree is restricted afterwards. A grammar of its
// own would answer with a syntax error where AWS names the operator that is not allowed. hash and
// rng decide which of two comparisons is which; their order in the text is free.
func ParseKeyCondition(text string, env *Env, hash, rng string) (*KeyCondition, error) {
	c, err := parseCondition(keyConditionExpression, text, env)
	if err != nil {
		return nil, err
	}
	terms, kerr := keyTerms(nil, c.root)
	if kerr != nil {
		return nil, kerr
	}
	var out KeyCondition
	for _, n := range terms {
		name, r, err := c.keyTerm(n)
		if err != nil {
			return nil, err
		}
		switch {
		case name == hash && out.Hash == nil && r.Op == Eq:
			out.Hash = r.Low
		case name == rng && rng != "" && out.Range == nil:
			out.Range = r
		case name != hash && (name != rng || rng == ""):
			return nil, errorf("Query condition missed key schema element: %s", hash)
		case name == hash && out.Hash == nil:
			return nil, errNotSupported
		default:
			return nil, errTwice
		}
	}
	if out.Hash == nil {
		return nil, errorf("Query condition missed key schema element: %s", hash)
	}
	return &out, nil
}

// keyTerms splits conjunctions, to any depth. AWS accepts any nesting of AND, as in "(pk = :p) AND
// (sk > :s)".
func keyTerms(terms []*node, n *node) ([]*node, *Error) {
	switch n.op {
	case opAnd:
		for _, kid := range n.kids {
			var err *Error
			if terms, err = keyTerms(terms, kid); err != nil {
				return nil, err
			}
		}
		return terms, nil
	case opOr, opNot, opNe, opIn, opExists, opNotExists, opType, opContains:
		return nil, errorf("Invalid operator used in KeyConditionExpression: %s", n.op)
	default:
		return append(terms, n), nil
	}
}

// keyTerm reads one comparison. It returns the attribute and the condition on it. The attribute may
// stand on either side of a sign, so it is searched among all operands. BETWEEN and begins_with
// have fixed places, and their attribute must come first.
func (b *binding) keyTerm(n *node) (string, *RangeCondition, *Error) {
	at := -1 // index of the operand that is the attribute
	for i := range n.args {
		switch o := &n.args[i]; {
		case o.kind == sizeOperand:
			return "", nil, errNested
		case o.kind == pathOperand && at >= 0:
			return "", nil, errorf("Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition")
		case o.kind == pathOperand:
			at = i
		}
	}
	if at < 0 {
		return "", nil, errorf("Invalid condition in KeyConditionExpression: No key attribute specified")
	}
	key := n.args[at].path
	if len(key) > 1 {
		return "", nil, errorf("Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: %s", b.name(&key[0]))
	}
	op := rangeOps[n.op]
	if at > 0 {
		if op == Between || op == BeginsWith {
			return "", nil, errorf("Invalid condition in KeyConditionExpression: %s operator must have the key attribute as its first operand", n.op)
		}
		op = flipped[op]
		return b.name(&key[0]), &RangeCondition{Op: op, Low: b.values[n.args[0].slot]}, nil
	}
	r := &RangeCondition{Op: op, Low: b.values[n.args[1].slot]}
	if op == Between {
		r.High = b.values[n.args[2].slot]
	}
	return b.name(&key[0]), r, nil
}

// rangeOps has the operators that keyTerms lets pass.
var rangeOps = map[operator]RangeOp{
	opEq: Eq, opLt: Lt, opLe: Le, opGt: Gt, opGe: Ge, opBetween: Between, opBeginsWith: BeginsWith,
}

// flipped maps a comparison to the one with its sides exchanged.
var flipped = map[RangeOp]RangeOp{Eq: Eq, Lt: Gt, Le: Ge, Gt: Lt, Ge: Le}
