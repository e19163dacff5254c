package benchmarks_test

import (
	"maps"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A recorder keeps the last update through it, the last answer to an update of each item, and
// every item that a read returned.
type recorder struct {
	mu       sync.Mutex
	requests int
	update   *dynamodb.UpdateItemInput
	image    schema.Item
	written  map[schema.Key]schema.Item
	read     map[schema.Key]schema.Item
}

func newRecorder() *recorder {
	return &recorder{written: make(map[schema.Key]schema.Item), read: make(map[schema.Key]schema.Item)}
}

// on returns an API whose requests are recorded.
func (r *recorder) on(api dynamo.API) dynamo.API { return faults.Wrap(api, faults.After(r.keep)) }

// keep keeps a request and its answer.
func (r *recorder) keep(c *faults.Call, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	if err != nil {
		return err
	}
	switch out := c.Output.(type) {
	case *dynamodb.UpdateItemOutput:
		r.update, _ = c.Input.(*dynamodb.UpdateItemInput)
		r.image = maps.Clone(out.Attributes)
		r.written[schema.KeyOf(r.image)] = r.image
	case *dynamodb.GetItemOutput:
		r.add(out.Item)
	case *dynamodb.BatchGetItemOutput:
		r.add(out.Responses[table]...)
	}
	return nil
}

func (r *recorder) add(items ...schema.Item) {
	for _, item := range items {
		if len(item) > 0 {
			r.read[schema.KeyOf(item)] = item
		}
	}
}
