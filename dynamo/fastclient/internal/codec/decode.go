package codec

import (
	"hash/maphash"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/direct"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/plainjson"
)

// An Item is an item as the SDK returns it.
type Item = map[string]types.AttributeValue

// ReadItem reads the answer to a request for one item: an object that is empty, or has
// the one member, an item. It returns nil if there is none. The strings of the item are
// parts of the body.
//
// ReadItem and the functions below read only what DynamoDB sends: JSON without spaces, and
// attributes that are strings, numbers or booleans, without escapes, each once. They report
// everything else as not plain, and the SDK reads that.
func ReadItem(body, member string) (it Item, plain bool) {
	var room [ManyAttributes]direct.Attribute
	all, plain := ReadAttributes(body, member, room[:0])
	if !plain {
		return nil, false
	}
	return itemOf(all), true
}

// ReadAttributes reads what [ReadItem] reads, into a list that is not nil. It returns nil
// if there is no item.
func ReadAttributes(body, member string, to []direct.Attribute) (all []direct.Attribute, plain bool) {
	r := reader{plainjson.Reader{Rest: body}}
	r.Expect("{")
	if r.Rest == "}" {
		return nil, !r.Odd
	}
	r.Expect(`"`)
	r.Expect(member)
	r.Expect(`":`)
	all = r.attributes(to)
	r.Expect("}")
	return all, !r.Odd && r.Rest == ""
}

// ReadItems reads the answer to a batch of reads from one table that left no key
// unprocessed.
func ReadItems(body, table string) (items []Item, plain bool) {
	const unprocessed = `"UnprocessedKeys":{}`
	r := reader{plainjson.Reader{Rest: body}}
	r.Expect("{")
	before := r.Skip(unprocessed + ",") // servers differ in the order
	r.Expect(`"Responses":{"`)
	r.Expect(table)
	r.Expect(`":[`)
	items = make([]Item, 0, strings.Count(r.Rest, "}},{")+1)
	for !r.Odd && !r.Skip("]") {
		if len(items) > 0 {
			r.Expect(",")
		}
		var room [ManyAttributes]direct.Attribute
		items = append(items, itemOf(r.attributes(room[:0])))
	}
	r.Expect("}")
	if !before {
		r.Expect("," + unprocessed)
	}
	r.Expect("}")
	return items, !r.Odd && r.Rest == ""
}

// ReadRefusal reads the answer to a write whose condition failed, with the item that failed
// it, if the request asked for that.
func ReadRefusal(body string) (message string, it Item, plain bool) {
	var room [ManyAttributes]direct.Attribute
	message, all, plain := ReadRefused(body, room[:0])
	if !plain {
		return "", nil, false
	}
	return message, itemOf(all), true
}

// ReadRefused reads what [ReadRefusal] reads, as [ReadAttributes] does.
func ReadRefused(body string, to []direct.Attribute) (message string, all []direct.Attribute, plain bool) {
	r := reader{plainjson.Reader{Rest: body}}
	r.Expect(`{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",`)
	if !r.Skip(`"message":"`) { // servers differ
		r.Expect(`"Message":"`)
	}
	message = r.Tail()
	if r.Skip(`,"Item":`) {
		all = r.attributes(to)
	}
	r.Expect("}")
	return message, all, !r.Odd && r.Rest == ""
}

// A reader reads the parts of answers.
type reader struct{ plainjson.Reader }

// ManyAttributes is the number of attributes that need no memory while they are read.
const ManyAttributes = 40

// itemOf makes an item of its attributes: the map and the structs in one piece each.
func itemOf(all []direct.Attribute) Item {
	if all == nil {
		return nil
	}
	texts, numbers := 0, 0
	for i := range all {
		switch all[i].Kind {
		case direct.String:
			texts++
		case direct.Number:
			numbers++
		case direct.True, direct.False:
		}
	}
	it := make(Item, len(all))
	s, n := make([]types.AttributeValueMemberS, texts), make([]types.AttributeValueMemberN, numbers)
	for i := range all {
		switch a := &all[i]; a.Kind {
		case direct.String:
			s[0].Value = a.Text
			it[a.Name], s = &s[0], s[1:]
		case direct.Number:
			n[0].Value = a.Text
			it[a.Name], n = &n[0], n[1:]
		case direct.True, direct.False:
			it[a.Name] = &types.AttributeValueMemberBOOL{Value: a.Kind == direct.True}
		}
	}
	return it
}

// attributes reads the attributes of an item.
func (r *reader) attributes(to []direct.Attribute) []direct.Attribute {
	r.Expect("{")
	for !r.Odd && !r.Skip("}") {
		if len(to) > 0 {
			r.Expect(",")
		}
		to = append(to, r.attribute())
	}
	r.Odd = r.Odd || !distinct(to)
	return to
}

var seed = maphash.MakeSeed()

// distinct reports whether no two attributes have the same name. It compares a name with
// the earlier ones only if one of them may have the same hash.
func distinct(all []direct.Attribute) bool {
	const words, bits = 16, 64
	var seen [words]uint64
	for i := range all {
		hash := maphash.String(seed, all[i].Name)
		word, bit := hash/bits%words, uint64(1)<<(hash%bits)
		if seen[word]&bit != 0 && slices.ContainsFunc(all[:i], func(a direct.Attribute) bool { return a.Name == all[i].Name }) {
			return false
		}
		seen[word] |= bit
	}
	return true
}

func (r *reader) attribute() (a direct.Attribute) {
	a.Name = r.Text()
	switch {
	case r.Skip(`:{"S":"`):
		a.Kind, a.Text = direct.String, r.Tail()
	case r.Skip(`:{"N":"`):
		a.Kind, a.Text = direct.Number, r.Tail()
	case r.Skip(`:{"BOOL":true`):
		a.Kind = direct.True
	case r.Skip(`:{"BOOL":false`):
		a.Kind = direct.False
	default:
		r.Odd = true
	}
	r.Expect("}")
	return a
}
