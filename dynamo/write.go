package dynamo

import (
	"context"
	"errors"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/direct"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A bucketWrite is a write to a bucket item under way. A client of package fastclient
// sends and answers it without maps: see [direct.Update].
type bucketWrite struct {
	expression.Write
	store  *Store
	bucket store.Bucket
	seen   *store.Image // on which the write was worked out, nil if unknown
	pk     string
	shape  *expression.Shape
	op     string       // in errors
	rest   any          // of a request that goes on, see [calls.Leavable]
	image  *store.Image // that the write met
	err    error        // of decoding it
}

var _ direct.Update = (*bucketWrite)(nil)

// bucketWrites has writes that are not in use: one is larger than all else that a write
// allocates.
var bucketWrites = sync.Pool{New: func() any { return new(bucketWrite) }}

// newBucketWrite returns a write without operations. The caller must send it.
func newBucketWrite(s *Store, b store.Bucket) *bucketWrite {
	w, _ := bucketWrites.Get().(*bucketWrite)
	w.store, w.bucket = s, b
	return w
}

// drop ends the use of the write.
func (w *bucketWrite) drop() {
	*w = bucketWrite{}
	bucketWrites.Put(w)
}

// send sends the write and returns the outcome, with the item that it met. A nil cache
// keeps no shape. It ends the use of the write, unless that goes on.
func (w *bucketWrite) send(ctx context.Context, op string, c *expression.Cache) (store.Outcome, error) {
	shape, err := w.Shape(c)
	if err != nil {
		w.drop()
		return store.Outcome{}, err
	}
	w.shape, w.pk, w.op = shape, schema.BucketKey(w.store.ns, w.bucket).PK, op
	return w.exchange(ctx)
}

// sentBefore returns the write that goes on under ctx, nil if there is none.
func sentBefore(ctx context.Context) *bucketWrite {
	l := calls.LeavableOf(ctx)
	if l == nil {
		return nil
	}
	w, _ := l.Rest().(*bucketWrite)
	if w != nil {
		l.Keep(w.rest)
	}
	return w
}

// exchange is send for a write that has its shape, or was sent before.
func (w *bucketWrite) exchange(ctx context.Context) (store.Outcome, error) {
	s := w.store
	applied, out, err := s.conn.Update(ctx, w)
	if errors.Is(err, calls.ErrGoesOn) {
		l := calls.LeavableOf(ctx)
		w.rest = l.Rest()
		l.Keep(w)
		return store.Outcome{}, err
	}
	defer w.drop()
	switch {
	case errors.Is(err, calls.ErrApart):
		return store.Outcome{}, err
	case err != nil:
		return s.refused(w.op, w.bucket, err)
	case out != nil:
		w.image, w.err = schema.DecodeBucketAfter(out.Attributes, w.seen)
	}
	return store.Outcome{Applied: applied, Image: w.image}, w.err
}

// Input is the write as the SDK takes it.
func (w *bucketWrite) Input() *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName:                           w.store.conn.Table,
		Key:                                 schema.Key{PK: w.pk, SK: schema.StateSK}.Item(),
		UpdateExpression:                    &w.shape.Update,
		ConditionExpression:                 &w.shape.Condition,
		ExpressionAttributeNames:            w.shape.Names,
		ExpressionAttributeValues:           w.Values(),
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// AppendTo appends the same in JSON.
func (w *bucketWrite) AppendTo(body []byte) []byte {
	body = append(append(append(body, '{'), w.shape.Members...), `,"ExpressionAttributeValues":{`...)
	body = append(w.AppendValues(body), `},"Key":{"PK":{"S":`...)
	body = append(direct.AppendText(body, w.pk), `},"SK":{"S":"`+schema.StateSK+`"}},"ReturnValues":"`+string(types.ReturnValueAllNew)+
		`","ReturnValuesOnConditionCheckFailure":"`+string(types.ReturnValuesOnConditionCheckFailureAllOld)+`","TableName":`...)
	return append(direct.AppendText(body, *w.store.conn.Table), '}')
}

// Meet decodes the item. The names of its limits are those of the shape.
func (w *bucketWrite) Meet(item []direct.Attribute) {
	w.image, w.err = schema.DecodeBucketFrom(item, scalarOf, w.bucket, w.shape.Limits, w.seen)
}

// scalarOf returns an attribute as package schema takes it.
func scalarOf(a *direct.Attribute) (name string, v schema.Scalar) {
	switch v.Text = a.Text; a.Kind {
	case direct.String:
		v.Kind = schema.String
	case direct.Number:
		v.Kind = schema.Number
	case direct.True:
		v.Kind = schema.True
	case direct.False:
	}
	return a.Name, v
}
