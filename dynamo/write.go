package dynamo

import (
	"context"
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
	pk     string
	shape  *expression.Shape
	image  *store.Image // that the write met
	err    error        // of decoding it
}

var _ direct.Update = (*bucketWrite)(nil)

// bucketWrites has writes that are not in use: one is larger than all else that a write
// allocates.
var bucketWrites = sync.Pool{New: func() any { return new(bucketWrite) }}

// newBucketWrite returns a write without operations. The caller must drop it.
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
// keeps no shape.
func (w *bucketWrite) send(ctx context.Context, op string, c *expression.Cache) (store.Outcome, error) {
	shape, err := w.Shape(c)
	if err != nil {
		return store.Outcome{}, err
	}
	s := w.store
	w.shape, w.pk = shape, schema.BucketKey(s.ns, w.bucket).PK
	applied, out, err := s.conn.Update(ctx, w)
	switch {
	case calls.IsUnanswered(err):
		return store.Outcome{}, err
	case err != nil:
		return s.refused(op, w.bucket, err)
	case out != nil:
		w.image, w.err = schema.DecodeBucket(out.Attributes)
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
	w.image, w.err = schema.DecodeBucketFrom(item, scalarOf, w.bucket, w.shape.Limits)
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
