package transact

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/history"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/request"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// FingerprintOf digests the work of a transaction, independent of the order of its maps. Options of
// the response (ReturnConsumedCapacity) are not part of it. AWS refuses a token whose request has
// other parameters.
//
// The naive design compares the requests themselves. The engine would have to keep up to 4 MiB for
// each token, in memory and in the log, for ten minutes.
//
// The order of the operations counts. Numbers count as they are written, so 1 and 1.0 differ: a
// client that repeats a request sends the same bytes.
func FingerprintOf(items []types.TransactWriteItem) history.Fingerprint {
	d := digest{sha256.New()}
	for i := range items {
		for _, op := range transactedWrites(&items[i]) {
			d.operation(&op)
		}
	}
	return history.Fingerprint(d.Sum(nil))
}

// digest writes values so that different values never read the same: every string with its length,
// every collection with its count, every value with its type. Without the lengths, the names "ab"
// and "c" would read like "a" and "bc".
type digest struct{ hash.Hash }

// digestedKinds are what a digest has for the kinds of operations. They are on disk. A token in the
// log must have the same fingerprint after an update of the program. So the whole digest may never
// change.
var digestedKinds = [...]string{request.WritePut: "put", request.WriteUpdate: "update", request.WriteDelete: "delete", request.WriteCheck: "check"}

// ReturnValuesOnConditionCheckFailure is left out: it changes the answer and not the work.
func (d digest) operation(op *transactedWrite) {
	d.text(digestedKinds[op.kind])
	d.text(aws.ToString(op.tableName))
	d.item(op.item)
	d.text(aws.ToString(op.condition))
	d.text(aws.ToString(op.update))
	d.count(len(op.names))
	for _, name := range slices.Sorted(maps.Keys(op.names)) {
		d.text(name)
		d.text(op.names[name])
	}
	d.item(op.values)
}

func (d digest) count(n int) {
	var buf [8]byte
	binary.BigEndian.PutUint64(buf[:], uint64(n))
	d.Write(buf[:])
}

func (d digest) text(s string) {
	d.count(len(s))
	d.Write([]byte(s))
}

// Nil reads like empty. At the top of a request one of the two is invalid, and was refused before.
func (d digest) item(item value.Item) {
	d.count(len(item))
	for _, name := range slices.Sorted(maps.Keys(item)) {
		d.text(name)
		d.value(item[name])
	}
}

func (d digest) value(v value.AV) {
	d.text(value.TypeName(v))
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		d.text(v.Value)
	case *types.AttributeValueMemberN:
		d.text(v.Value)
	case *types.AttributeValueMemberB:
		d.text(string(v.Value))
	case *types.AttributeValueMemberBOOL:
		d.flag(v.Value)
	case *types.AttributeValueMemberNULL:
		d.flag(v.Value)
	case *types.AttributeValueMemberSS:
		d.set(v.Value)
	case *types.AttributeValueMemberNS:
		d.set(v.Value)
	case *types.AttributeValueMemberBS:
		elements := make([]string, len(v.Value))
		for i, b := range v.Value {
			elements[i] = string(b)
		}
		d.set(elements)
	case *types.AttributeValueMemberL:
		d.count(len(v.Value))
		for _, e := range v.Value {
			d.value(e)
		}
	case *types.AttributeValueMemberM:
		d.item(v.Value)
	}
}

func (d digest) flag(b bool) {
	if b {
		d.count(1)
	} else {
		d.count(0)
	}
}

// A set has no order, so its elements are sorted: the SDK of a client may send them in any order.
func (d digest) set(elements []string) {
	d.count(len(elements))
	for _, e := range slices.Sorted(slices.Values(elements)) {
		d.text(e)
	}
}
