package fastclient

import (
	"context"
	"sync"
	"unsafe"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/zeroae/zae-limiter-go/dynamo/fastclient/internal/codec"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/direct"
)

// Updater is for package dynamo. It returns the client's own form of UpdateItem, which
// makes no maps, if api is the client. It returns nil for an API that embeds the client, for
// a table that is an ARN, and for a client whose options leave every call to the SDK.
func (c *Client) Updater(api any, table string) direct.Updater {
	if api != any(c) || !named(&table) || c.pool == nil {
		return nil
	}
	return (*updater)(c)
}

// An updater is a Client that sends updates.
type updater Client

// updates has the working memory of updates.
var updates = sync.Pool{New: func() any { return &update{room: make([]direct.Attribute, 0, codec.ManyAttributes)} }}

// Update sends an update, as the Client sends every other call.
func (c *updater) Update(ctx context.Context, u direct.Update, optFns ...func(*dynamodb.Options)) (direct.Answer, error) {
	in, _ := updates.Get().(*update)
	in.Update = u
	out, err := call(ctx, (*Client)(c), &directUpdate, in, optFns)
	var answer direct.Answer
	if out != nil {
		answer = out.Answer
	}
	clear(in.room[:cap(in.room)])
	*in = update{room: in.room}
	updates.Put(in)
	return answer, err
}

// An update is one under way. It is the input of its operation.
type update struct {
	direct.Update
	room []direct.Attribute
	out  updated
}

var _ smithy.Serializable = (*update)(nil)

// Serialize writes the request.
func (u *update) Serialize(to smithy.ShapeSerializer) {
	if w, ok := to.(*codec.Writer); ok {
		w.Write(u.AppendTo)
	}
}

// updated is the result of an update.
type updated struct{ direct.Answer }

var _ smithy.Deserializable = (*updated)(nil)

// Deserialize reads the SDK's result.
func (u *updated) Deserialize(from smithy.ShapeDeserializer) error {
	u.Output = new(dynamodb.UpdateItemOutput)
	return u.Output.Deserialize(from)
}

// directUpdate is updateItem for an update that takes the attributes out of the body.
var directUpdate = operation[update, updated]{
	name:   updateItem.name,
	schema: updateItem.schema,
	plain:  func(*update) bool { return true },
	read: func(in *update, body []byte) *updated {
		all, plain := codec.ReadAttributes(view(body), "Attributes", in.room[:0])
		return in.met(all, plain, false)
	},
	readRefusal: func(in *update, body []byte) *updated {
		_, all, plain := codec.ReadRefused(view(body), in.room[:0])
		return in.met(all, plain, true)
	},
	metadata: func(out *updated) *middleware.Metadata { return &out.Metadata },
	sdk: func(c *dynamodb.Client, ctx context.Context, in *update, optFns ...func(*dynamodb.Options)) (*updated, error) {
		out, err := c.UpdateItem(ctx, in.Input(), optFns...)
		if err != nil {
			return nil, err
		}
		in.out.Output, in.out.Metadata = out, out.ResultMetadata
		return &in.out, nil
	},
}

// met gives the item of a plain answer to the update.
func (u *update) met(all []direct.Attribute, plain, refused bool) *updated {
	if !plain {
		return nil
	}
	if all != nil || !refused {
		u.Meet(all)
	}
	if all != nil {
		u.room = all[:0]
	}
	u.out.Refused = refused
	return &u.out
}

// view is a body as a string, without a copy. It changes when the answer is released.
func view(body []byte) string { return unsafe.String(unsafe.SliceData(body), len(body)) }
