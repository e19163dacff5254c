package wire

import (
	"encoding/base64"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-json-experiment/json/jsontext"
)

// readItem reads a map of attribute values that is inside so many lists and maps. null is nil.
func readItem(d *jsontext.Decoder, level int) (map[string]types.AttributeValue, error) {
	item := map[string]types.AttributeValue{}
	null, err := members(d, func(name string) error {
		v, err := readPresent(d, level)
		item[name] = v
		return err
	})
	if null || err != nil {
		return nil, err
	}
	return item, nil
}

// readPresent is [readValue] for places where a value is required.
func readPresent(d *jsontext.Decoder, level int) (types.AttributeValue, error) {
	v, err := readValue(d, level)
	if err == nil && v == nil {
		err = errEmpty
	}
	return v, err
}

// readValue reads an attribute value that is inside so many lists and maps. null is nil.
//
// An attribute value is an object with one member, whose name is the type. A null member and one of
// an unknown type do not count, so {"S":"a","N":null} is a string. After the first type, the
// function goes on to the end of the object: a second one is an error wherever it stands. The level
// is checked first, before the recursion that it bounds.
func readValue(d *jsontext.Decoder, level int) (types.AttributeValue, error) {
	if level > maxLevels {
		return nil, errDepth
	}
	var found types.AttributeValue
	null, err := members(d, func(name string) error {
		v, err := readType(d, name, level)
		switch {
		case err != nil:
			return err
		case v == nil:
			return nil
		case found != nil:
			return errMore
		}
		found = v
		return nil
	})
	if err == nil && !null && found == nil {
		err = errEmpty
	}
	return found, err
}

// readType reads the value after the name of a data type. It returns nil if the value is null, or
// if the name is unknown.
func readType(d *jsontext.Decoder, name string, level int) (types.AttributeValue, error) {
	switch name {
	case "S":
		s, present, err := readString(d)
		if present {
			return &types.AttributeValueMemberS{Value: s}, nil
		}
		return nil, err
	case "N":
		s, present, err := readString(d)
		if present {
			return &types.AttributeValueMemberN{Value: s}, nil
		}
		return nil, err
	case "B":
		b, present, err := readBytes(d)
		if present {
			return &types.AttributeValueMemberB{Value: b}, nil
		}
		return nil, err
	case "BOOL":
		b, present, err := readBool(d)
		if present {
			return &types.AttributeValueMemberBOOL{Value: b}, nil
		}
		return nil, err
	case "NULL":
		b, present, err := readBool(d)
		if present {
			return &types.AttributeValueMemberNULL{Value: b}, nil
		}
		return nil, err
	case "M":
		item, err := readItem(d, level+1)
		if item != nil {
			return &types.AttributeValueMemberM{Value: item}, nil
		}
		return nil, err
	case "L":
		list, err := readList(d, func() (types.AttributeValue, bool, error) {
			v, err := readPresent(d, level+1)
			return v, true, err
		})
		if list != nil {
			return &types.AttributeValueMemberL{Value: list}, nil
		}
		return nil, err
	default:
		return readSet(d, name)
	}
}

// readSet reads a set, or skips what follows an unknown name. An empty set is a set here; the
// engine refuses it with its own error.
func readSet(d *jsontext.Decoder, name string) (types.AttributeValue, error) {
	switch name {
	case "SS":
		set, err := readList(d, func() (string, bool, error) { return readString(d) })
		if set != nil {
			return &types.AttributeValueMemberSS{Value: set}, nil
		}
		return nil, err
	case "NS":
		set, err := readList(d, func() (string, bool, error) { return readString(d) })
		if set != nil {
			return &types.AttributeValueMemberNS{Value: set}, nil
		}
		return nil, err
	case "BS":
		set, err := readList(d, func() ([]byte, bool, error) { return readBytes(d) })
		if set != nil {
			return &types.AttributeValueMemberBS{Value: set}, nil
		}
		return nil, err
	default:
		return nil, d.SkipValue()
	}
}

// readList reads an array whose elements must be present. null is nil, an empty array is not. The
// difference matters: {"L":[]} is an empty list, and {"L":null} is no value.
func readList[T any](d *jsontext.Decoder, read func() (v T, present bool, err error)) ([]T, error) {
	list := []T{}
	null, err := elements(d, func() error {
		v, present, err := read()
		if err == nil && !present {
			err = errNull
		}
		list = append(list, v)
		return err
	})
	if null || err != nil {
		return nil, err
	}
	return list, nil
}

// readBool reads a boolean. null is not present.
func readBool(d *jsontext.Decoder) (b, present bool, err error) {
	t, err := d.ReadToken()
	if err != nil {
		return false, false, err
	}
	switch t.Kind() {
	case 't', 'f':
		return t.Kind() == 't', true, nil
	case 'n':
		return false, false, nil
	default:
		return false, false, mismatch(t.Kind(), "a boolean", string(d.StackPointer()))
	}
}

// readBytes reads a string in padded base64. It rejects the line breaks that the decoder would
// skip. Strict also rejects padding whose unused bits are set. So each binary has one spelling.
func readBytes(d *jsontext.Decoder) (b []byte, present bool, err error) {
	s, present, err := readString(d)
	if !present {
		return nil, false, err
	}
	if b, err = base64.StdEncoding.Strict().DecodeString(s); err != nil || strings.ContainsAny(s, "\r\n") {
		return nil, false, &Error{SerializationException, "The value at " + string(d.StackPointer()) + " is not valid base64"}
	}
	return b, true, nil
}
