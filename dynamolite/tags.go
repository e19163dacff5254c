package dynamolite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

const (
	maxTags     = 50  // of a table
	maxTagKey   = 128 // characters
	maxTagValue = 256 // characters
)

// TagResource adds tags to a table, which is named by its ARN, or gives its existing tags another
// value. It sets all of them or none. Errors: *types.ResourceNotFoundException for a table that
// does not exist, or an AccessDeniedException if its ARN has another account or region than the
// ARNs of this engine. A ValidationException is for an ARN that is not a table's, a tag that AWS
// does not allow, and more than 50 tags together.
func (db *DB) TagResource(ctx context.Context, in *dynamodb.TagResourceInput, _ ...func(*dynamodb.Options)) (*dynamodb.TagResourceOutput, error) {
	return run(ctx, db, opTagResource, in, (*DB).tagResource)
}

func (db *DB) tagResource(c *call, in *dynamodb.TagResourceInput) (*dynamodb.TagResourceOutput, error) {
	t, err := db.resource(c, in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if len(in.Tags) == 0 {
		return nil, validation("At least one Tag needs to be provided as Input.")
	}
	tags, err := newTags(in.Tags)
	if err != nil {
		return nil, err
	}
	return &dynamodb.TagResourceOutput{}, db.alter(c, t, func(s *schema) error {
		if s.tags == nil {
			s.tags = map[string]string{}
		}
		maps.Copy(s.tags, tags)
		return checkTagCount(len(s.tags))
	})
}

// UntagResource removes tags from a table, which is named by its ARN. A missing tag is not an
// error. Errors are those of [DB.TagResource].
func (db *DB) UntagResource(ctx context.Context, in *dynamodb.UntagResourceInput, _ ...func(*dynamodb.Options)) (*dynamodb.UntagResourceOutput, error) {
	return run(ctx, db, opUntagResource, in, (*DB).untagResource)
}

func (db *DB) untagResource(c *call, in *dynamodb.UntagResourceInput) (*dynamodb.UntagResourceOutput, error) {
	t, err := db.resource(c, in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if len(in.TagKeys) == 0 {
		return nil, validation("At least one Tag Key needs to be provided as Input.")
	}
	if err := checkTagCount(len(in.TagKeys)); err != nil {
		return nil, err
	}
	for _, key := range in.TagKeys {
		if err := checkTagKey(key); err != nil {
			return nil, err
		}
	}
	return &dynamodb.UntagResourceOutput{}, db.alter(c, t, func(s *schema) error {
		for _, key := range in.TagKeys {
			delete(s.tags, key)
		}
		return nil
	})
}

// ListTagsOfResource lists the tags of a table, which is named by its ARN, in the order of their
// keys. They fit on one page, as on AWS, so there is never a NextToken. A NextToken in the
// request is a ValidationException.
func (db *DB) ListTagsOfResource(ctx context.Context, in *dynamodb.ListTagsOfResourceInput, _ ...func(*dynamodb.Options)) (*dynamodb.ListTagsOfResourceOutput, error) {
	return run(ctx, db, opListTagsOfResource, in, (*DB).listTagsOfResource)
}

func (db *DB) listTagsOfResource(c *call, in *dynamodb.ListTagsOfResourceInput) (*dynamodb.ListTagsOfResourceOutput, error) {
	defer c.seesAll(db)
	t, err := db.resource(c, in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if in.NextToken != nil {
		return nil, validation("The NextToken is not one that ListTagsOfResource has returned")
	}
	tags := t.schema().tags
	out := &dynamodb.ListTagsOfResourceOutput{Tags: make([]types.Tag, 0, len(tags))}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out.Tags = append(out.Tags, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return out, nil
}

// resource finds a table by its ARN.
func (db *DB) resource(c *call, arn *string) (*table, error) {
	if arn == nil {
		return nil, missing("ResourceArn")
	}
	name := plainTableName(*arn)
	if name == *arn {
		return nil, validationf("Invalid TableArn: Invalid ResourceArn provided as input %s; an ARN of a table begins like %s", *arn, tableARN(""))
	}
	if strings.Contains(name, "/") {
		return nil, invalid("Invalid resource arn provided, only a table's is accepted. Provided resource arn: %s", *arn)
	}
	t, err := db.table(c, &name)
	if _, unknown := errors.AsType[*types.ResourceNotFoundException](err); unknown {
		return nil, noResource(c.op, *arn)
	}
	return t, err
}

// noResource returns the error for the ARN of a table that does not exist. AWS does not tell who
// asks for a table of another account or region whether it exists.
func noResource(op operation, arn string) error {
	if strings.HasPrefix(arn, tableARN("")) {
		return &types.ResourceNotFoundException{Message: aws.String("Requested resource not found: ResourcArn: " + arn + " not found")}
	}
	return &smithy.GenericAPIError{Code: "AccessDeniedException", Fault: smithy.FaultClient, Message: fmt.Sprintf(
		"User: arn:aws:iam::000000000000:root is not authorized to perform: dynamodb:%s on resource: %s because no resource-based policy allows the dynamodb:%s action", op, arn, op)}
}

// newTags reads the tags of a request.
func newTags(in []types.Tag) (map[string]string, error) {
	if len(in) == 0 {
		return nil, nil
	}
	tags := make(map[string]string, len(in))
	for _, tag := range in {
		if tag.Key == nil {
			return nil, missing("Key")
		}
		if err := checkTagKey(*tag.Key); err != nil {
			return nil, err
		}
		switch {
		case tag.Value == nil:
			return nil, missing("Value")
		case !tagText(*tag.Value, maxTagValue):
			return nil, validationf("The Tag Value provided is invalid, Value: %s", *tag.Value)
		}
		if _, twice := tags[*tag.Key]; twice {
			return nil, validationf("Duplicate Tag Keys provided as input: Duplicate Tag Key found %s", *tag.Key)
		}
		tags[*tag.Key] = *tag.Value
	}
	return tags, checkTagCount(len(tags))
}

func checkTagCount(n int) error {
	if n > maxTags {
		return validationf("Number of Tags exceed the current limit for the provided ResourceArn: %d", maxTags)
	}
	return nil
}

func checkTagKey(key string) error {
	const reserved = "aws:"
	switch {
	case key == "" || !tagText(key, maxTagKey):
		return validationf("The Tag Key provided is invalid, Key: %s", key)
	case len(key) >= len(reserved) && strings.EqualFold(key[:len(reserved)], reserved):
		return validationf("Tag Key cannot be prefixed with aws:, Key: %s", key)
	}
	return nil
}

// tagText reports whether a text has only characters that AWS allows in tags, and at most so many
// of them.
func tagText(s string, most int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= most && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsSpace(r) && !strings.ContainsRune("+-=._:/@", r)
	})
}
