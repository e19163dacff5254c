package dynamo

import (
	"context"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Create makes a bucket item that does not exist, already debited:
//
//	PUT    the whole item
//	if     there is none
func (s *Store) Create(ctx context.Context, c *store.Create) (store.Outcome, error) {
	if err := checkCreate(c); err != nil {
		return store.Outcome{}, err
	}
	it, img, err := s.newItem(c)
	if err != nil {
		return store.Outcome{}, err
	}
	_, err = conn.Send(ctx, s.conn, s.conn.API.PutItem, &dynamodb.PutItemInput{
		TableName:                           s.conn.Table,
		Item:                                it,
		ConditionExpression:                 aws.String("attribute_not_exists(PK)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, conn.BucketWrite)
	if err != nil {
		return s.refused("create", c.Bucket, err)
	}
	return store.Outcome{Applied: true, Image: img}, nil
}

// newItem is the item of a creation, and its image. It has no position where that would make it cost another unit,
// and no reservations where these would.
func (s *Store) newItem(c *store.Create) (schema.Item, *store.Image, error) {
	fits := *c
	fits.Position, fits.Reserved = store.Position{}, nil
	it := schema.EncodeNewBucket(s.ns, s.isSpread, &fits)
	img, err := schema.DecodeBucket(it)
	if err != nil || c.Position.Name == "" {
		return it, img, err
	}
	room, places := int(img.PositionCap)%store.PositionRound, 1
	for i := range c.Reserved {
		places += c.Reserved[i].Places()
	}
	if room == 0 {
		return it, img, nil
	}
	if fits.Position = c.Position; room >= places {
		fits.Reserved = c.Reserved
	}
	schema.PutFirst(it, &fits)
	img, err = schema.DecodeBucket(it)
	return it, img, err
}

// checkCreate validates the names in a new bucket.
func checkCreate(c *store.Create) error {
	if err := checkBucket(c.Bucket); err != nil {
		return err
	}
	if err := checkCount(len(c.Limits)); err != nil {
		return err
	}
	for i := range c.Limits {
		if err := store.CheckLimitName(c.Limits[i].Limit); err != nil {
			return err
		}
	}
	return nil
}

// checkCount validates the number of limits of a bucket: no more than one write to it
// can carry.
func checkCount(limits int) error {
	if limits > store.MaxLimits {
		return &store.ValidationError{
			Field: "limits", Value: strconv.Itoa(limits), Reason: fmt.Sprintf("a bucket has at most %d", store.MaxLimits),
		}
	}
	return nil
}
