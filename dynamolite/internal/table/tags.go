package table

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
)

// The limits of tags ("Tag", API reference). Lengths are characters of Unicode, not bytes.
const (
	maxTags     = 50  // of a table
	maxTagKey   = 128 // characters
	maxTagValue = 256 // characters
)

// NewTags reads the tags of a request. DynamoDB Local knows no tags. The cases on them have the
// answers that AWS documents.
func NewTags(in []types.Tag) (map[string]string, error) {
	if len(in) == 0 {
		return nil, nil
	}
	tags := make(map[string]string, len(in))
	for _, tag := range in {
		if tag.Key == nil {
			return nil, api.Missing("Key")
		}
		if err := CheckTagKey(*tag.Key); err != nil {
			return nil, err
		}
		switch {
		case tag.Value == nil:
			return nil, api.Missing("Value")
		case !tagText(*tag.Value, maxTagValue):
			return nil, api.Validationf("The Tag Value provided is invalid, Value: %s", *tag.Value)
		}
		if _, twice := tags[*tag.Key]; twice {
			return nil, api.Validationf("Duplicate Tag Keys provided as input: Duplicate Tag Key found %s", *tag.Key)
		}
		tags[*tag.Key] = *tag.Value
	}
	return tags, CheckTagCount(len(tags))
}

// CheckTagCount validates the number of tags of a table. UntagResource checks its keys by the same
// limit.
func CheckTagCount(n int) error {
	if n > maxTags {
		return api.Validationf("Number of Tags exceed the current limit for the provided ResourceArn: %d", maxTags)
	}
	return nil
}

// CheckTagKey validates the key of a tag.
//
// The prefix "aws:" is reserved in any case of its letters.
func CheckTagKey(key string) error {
	const reserved = "aws:"
	switch {
	case key == "" || !tagText(key, maxTagKey):
		return api.Validationf("The Tag Key provided is invalid, Key: %s", key)
	case len(key) >= len(reserved) && strings.EqualFold(key[:len(reserved)], reserved):
		return api.Validationf("Tag Key cannot be prefixed with aws:, Key: %s", key)
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
