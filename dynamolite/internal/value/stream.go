package value

import (
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// StreamItem is an item in the types of the streams API.
type StreamItem = map[string]streamtypes.AttributeValue

// DecodeStream is [Decode] for the streams API, which has value types of its own.
//
// The naive design decodes into the types of items and converts each value, which makes every value
// twice. The two sets of types differ in name only, but Go has no way to treat one as the other.
func DecodeStream(data string) StreamItem {
	d := streamDecoder{decoder: decoder{rest: data}}
	strings, numbers, ok := d.census()
	if !ok {
		panic(ErrEncoding)
	}
	d.s, d.n = make([]streamtypes.AttributeValueMemberS, strings), make([]streamtypes.AttributeValueMemberN, numbers)
	item := d.item(0)
	if d.bad || d.rest != "" {
		panic(ErrEncoding)
	}
	return item
}

// LookupStream is [Lookup] for the streams API. It is for the keys in a stream record, which each
// view has.
func LookupStream(data, name string) streamtypes.AttributeValue {
	d := streamDecoder{decoder: decoder{rest: data}}
	if !d.find(name) {
		return nil
	}
	v := d.value(0, 1)
	if d.bad {
		return nil
	}
	return v
}

// A streamDecoder is a decoder that makes values of the streams API, with several strings and
// numbers to an allocation. A block lives as long as any value in it.
type streamDecoder struct {
	decoder
	s []streamtypes.AttributeValueMemberS
	n []streamtypes.AttributeValueMemberN
}

func (d *streamDecoder) item(depth int) StreamItem { return mapOf(&d.decoder, depth, d.value) }

// value reads one of about so many values.
func (d *streamDecoder) value(depth, more int) streamtypes.AttributeValue {
	switch tag := d.tag(depth); tag {
	case tagS:
		p := take(&d.s, more)
		p.Value = d.text()
		return p
	case tagN:
		p := take(&d.n, more)
		p.Value = d.text()
		return p
	case tagB:
		return &streamtypes.AttributeValueMemberB{Value: []byte(d.text())}
	case tagFalse, tagTrue:
		return &streamtypes.AttributeValueMemberBOOL{Value: tag == tagTrue}
	case tagNull:
		return &streamtypes.AttributeValueMemberNULL{Value: true}
	case tagSS:
		return &streamtypes.AttributeValueMemberSS{Value: d.texts()}
	case tagNS:
		return &streamtypes.AttributeValueMemberNS{Value: d.texts()}
	case tagBS:
		return &streamtypes.AttributeValueMemberBS{Value: d.binaries()}
	case tagL:
		list := make([]streamtypes.AttributeValue, d.number())
		for i := range list {
			list[i] = d.value(depth+1, len(list)-i)
		}
		return &streamtypes.AttributeValueMemberL{Value: list}
	case tagM:
		return &streamtypes.AttributeValueMemberM{Value: d.item(depth + 1)}
	default:
		d.fail()
		return nil
	}
}
