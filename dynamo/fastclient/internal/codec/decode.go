package codec

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// An Item is an item as the SDK returns it.
type Item = map[string]types.AttributeValue

// ReadItem reads the answer to a request for one item: an object that is empty, or has
// the one member, an item. It returns nil if there is none. The strings of the item are
// parts of the body.
//
// ReadItem and [ReadItems] read only what DynamoDB sends: JSON without spaces, and
// attributes that are strings, numbers or booleans, without escapes. They report
// everything else as not plain, and the SDK reads that.
func ReadItem(body, member string) (it Item, plain bool) {
	r := reader{rest: body}
	r.expect("{")
	if r.rest == "}" {
		return nil, !r.odd
	}
	r.expect(`"`)
	r.expect(member)
	r.expect(`":`)
	it = r.item()
	r.expect("}")
	return it, !r.odd && r.rest == ""
}

// ReadItems reads the answer to a batch of reads from one table that left no key
// unprocessed.
func ReadItems(body, table string) (items []Item, plain bool) {
	const unprocessed = `"UnprocessedKeys":{}`
	r := reader{rest: body}
	r.expect("{")
	before := r.skip(unprocessed + ",") // servers differ in the order
	r.expect(`"Responses":{"`)
	r.expect(table)
	r.expect(`":[`)
	items = make([]Item, 0, strings.Count(r.rest, "}},{")+1)
	for !r.odd && !r.skip("]") {
		if len(items) > 0 {
			r.expect(",")
		}
		items = append(items, r.item())
	}
	r.expect("}")
	if !before {
		r.expect("," + unprocessed)
	}
	r.expect("}")
	return items, !r.odd && r.rest == ""
}

// ReadRefusal reads the answer to a write whose condition failed, with the item that failed
// it, if the request asked for that.
func ReadRefusal(body string) (message string, it Item, plain bool) {
	r := reader{rest: body}
	r.expect(`{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",`)
	if !r.skip(`"message":"`) { // servers differ
		r.expect(`"Message":"`)
	}
	message = r.text()
	if r.skip(`,"Item":`) {
		it = r.item()
	}
	r.expect("}")
	return message, it, !r.odd && r.rest == ""
}

// A reader reads from the beginning of rest. Once something is odd it reads nothing that
// counts.
type reader struct {
	rest string
	odd  bool
}

// skip reads a text if it is the next one.
func (r *reader) skip(text string) bool {
	rest, ok := strings.CutPrefix(r.rest, text)
	r.rest = rest
	return ok
}

// expect reads a text.
func (r *reader) expect(text string) { r.odd = !r.skip(text) || r.odd }

// text reads the rest of a string and the quote at its end.
func (r *reader) text() string {
	for i := range len(r.rest) {
		switch c := r.rest[i]; {
		case c == '"':
			text := r.rest[:i]
			r.rest = r.rest[i+1:]
			return text
		case c == '\\' || c < ' ':
			r.odd = true
			return ""
		}
	}
	r.odd = true
	return ""
}

// An attribute is one of an item.
type attribute struct {
	name, value string
	kind        byte // 'S', 'N', or 'B' for a boolean
}

// manyAttributes is the number of attributes that need no memory while they are read.
const manyAttributes = 40

// item reads an item. It first reads the attributes, so that it can make the map and the
// structs in one piece each.
func (r *reader) item() Item {
	var room [manyAttributes]attribute
	all := room[:0]
	texts, numbers := 0, 0
	r.expect("{")
	for !r.odd && !r.skip("}") {
		if len(all) > 0 {
			r.expect(",")
		}
		a := r.attribute()
		switch a.kind {
		case 'S':
			texts++
		case 'N':
			numbers++
		}
		all = append(all, a)
	}
	if r.odd {
		return nil
	}
	it := make(Item, len(all))
	s, n := make([]types.AttributeValueMemberS, texts), make([]types.AttributeValueMemberN, numbers)
	for _, a := range all {
		switch a.kind {
		case 'S':
			s[0].Value = a.value
			it[a.name], s = &s[0], s[1:]
		case 'N':
			n[0].Value = a.value
			it[a.name], n = &n[0], n[1:]
		default:
			it[a.name] = &types.AttributeValueMemberBOOL{Value: a.value == "true"}
		}
	}
	return it
}

func (r *reader) attribute() (a attribute) {
	r.expect(`"`)
	a.name = r.text()
	switch {
	case r.skip(`:{"S":"`):
		a.kind, a.value = 'S', r.text()
	case r.skip(`:{"N":"`):
		a.kind, a.value = 'N', r.text()
	case r.skip(`:{"BOOL":true`):
		a.kind, a.value = 'B', "true"
	case r.skip(`:{"BOOL":false`):
		a.kind = 'B'
	default:
		r.odd = true
	}
	r.expect("}")
	return a
}
