// Package direct is how a store gives an update of an item to a client, and gets the item
// from it, without the SDK's maps in between (ADR 037).
package direct

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
)

// An Update is an UpdateItem that returns the item as it is then, or as it was if the
// condition failed.
type Update interface {
	// Input is the update as the SDK takes it, made anew.
	Input() *dynamodb.UpdateItemInput
	// AppendTo appends the same update as the SDK encodes it, up to the order of members.
	AppendTo(body []byte) []byte
	// Meet receives the item, before the call returns. The attributes have different
	// names. They and their strings are valid until Meet returns.
	Meet(item []Attribute)
}

// An Attribute is an attribute of an item.
type Attribute struct {
	Name string
	Kind Kind
	Text string // a string, or the digits of a number
}

// A Kind is the type of an attribute.
type Kind byte

// The kinds of attributes. An item that has others reaches the store as the SDK decodes it.
const (
	String Kind = iota + 1
	Number
	True
	False
)

// An Answer is the result of an update.
type Answer struct {
	// Output is the SDK's result; nil: the update met the item, if there is one.
	Output *dynamodb.UpdateItemOutput
	// Refused reports that the condition failed. An SDK's client says so with an error.
	Refused  bool
	Metadata middleware.Metadata
}

// An Updater sends updates.
type Updater interface {
	Update(ctx context.Context, u Update, options ...func(*dynamodb.Options)) (Answer, error)
}

// A Source is a client that may be an Updater.
type Source interface {
	// Updater returns the updater of an API for a table. It returns nil if the API is not
	// the client itself: an API that embeds the client has the client's methods, but may
	// change its calls.
	Updater(api any, table string) Updater
}

// UpdaterOf returns the updater of an API for a table, nil if it has none.
func UpdaterOf(api any, table string) Updater {
	if source, ok := api.(Source); ok {
		return source.Updater(api, table)
	}
	return nil
}
