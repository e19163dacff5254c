package benchmarks_test

import (
	"context"
	"maps"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A recorder keeps the last update through it, with its answer, and every item that a read
// returned.
type recorder struct {
	dynamo.API

	mu       sync.Mutex
	requests int
	update   *dynamodb.UpdateItemInput
	image    schema.Item
	read     map[schema.Key]schema.Item
}

func newRecorder(api dynamo.API) *recorder {
	return &recorder{API: api, read: make(map[schema.Key]schema.Item)}
}

// UpdateItem passes an update on and keeps it.
func (r *recorder) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	out, err := r.API.UpdateItem(ctx, in, opts...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	if err == nil {
		r.update, r.image = in, maps.Clone(out.Attributes)
	}
	return out, err
}

// PutItem passes a write on and counts it.
func (r *recorder) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	out, err := r.API.PutItem(ctx, in, opts...)
	r.keep()
	return out, err
}

// GetItem passes a read on and keeps its answer.
func (r *recorder) GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	out, err := r.API.GetItem(ctx, in, opts...)
	if err == nil {
		r.keep(out.Item)
	}
	return out, err
}

// BatchGetItem passes a read on and keeps its answer.
func (r *recorder) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	out, err := r.API.BatchGetItem(ctx, in, opts...)
	if err == nil {
		r.keep(out.Responses[table]...)
	}
	return out, err
}

func (r *recorder) keep(items ...schema.Item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	for _, item := range items {
		if len(item) > 0 {
			r.read[schema.KeyOf(item)] = item
		}
	}
}
