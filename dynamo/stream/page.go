package stream

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/plainjson"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A page is the answer to one GetRecords.
type page struct {
	records []Record
	size    int64 // of the records, in bytes, as the stream counts
}

// getRecords reads a page. next is nil at the end of the shard.
//
// The SDK's own client decodes each image into a map, which took most of the time of a
// record. Therefore such a client gets another decoder for this call. Everything else of the
// call is the client's own (ADR 037). Another API may look at the records, so it returns
// them in the SDK's types.
func getRecords(ctx context.Context, api API, in *dynamodbstreams.GetRecordsInput) (p page, next *string, err error) {
	var own *protocol
	var options []func(*dynamodbstreams.Options)
	if _, isSDK := api.(*dynamodbstreams.Client); isSDK {
		options = append(options, func(o *dynamodbstreams.Options) {
			if theirs, isJSON := o.Protocol.(*awsjson.Protocol); isJSON {
				own = &protocol{ClientProtocol: theirs}
				o.Protocol = own
			}
		})
	}
	out, err := api.GetRecords(ctx, in, options...)
	if err != nil {
		return page{}, nil, err
	}
	if own != nil && own.read {
		return own.page, out.NextShardIterator, nil
	}
	return pageOf(out.Records), out.NextShardIterator, nil
}

// pageOf decodes records of the SDK's types.
func pageOf(records []streamtypes.Record) page {
	p := page{records: Decode(records)}
	for i := range records {
		if d := records[i].Dynamodb; d != nil {
			p.size += aws.ToInt64(d.SizeBytes)
		}
	}
	return p
}

// A protocol decodes a page in the SDK's place.
type protocol struct {
	smithyhttp.ClientProtocol
	page page
	read bool // the page has the records of the answer
}

// DeserializeResponse decodes a page of the usual form. The SDK decodes any other answer.
func (p *protocol) DeserializeResponse(ctx context.Context, op *smithy.OperationSchema, errs *smithy.TypeRegistry, response *smithyhttp.Response, to smithy.Deserializable) error {
	p.read = false // by an earlier attempt
	out, isPage := to.(*dynamodbstreams.GetRecordsOutput)
	if !isPage || response.StatusCode != http.StatusOK {
		return p.ClientProtocol.DeserializeResponse(ctx, op, errs, response, to)
	}
	var body strings.Builder
	body.Grow(int(max(response.ContentLength, 0)))
	if _, err := io.Copy(&body, response.Body); err != nil {
		return &smithy.DeserializationError{Err: err}
	}
	sdk := func(body string, to smithy.Deserializable) error {
		response := &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}}
		return p.ClientProtocol.DeserializeResponse(ctx, op, errs, response, to)
	}
	read, next, plain := readPage(body.String(), sdk)
	if !plain {
		return sdk(body.String(), to)
	}
	p.page, p.read, out.NextShardIterator = read, true, next
	return nil
}

// A sdkDecoder is the SDK's decoder of the answers to a request.
type sdkDecoder func(body string, to smithy.Deserializable) error

// readPage reads the body of an answer. It leaves to the SDK each record that is not plain,
// see [pageReader.record]. plain reports whether the page could be read so.
func readPage(body string, sdk sdkDecoder) (p page, next *string, plain bool) {
	r := pageReader{reader: reader{plainjson.Reader{Rest: body}}, copies: map[string]string{}, keys: map[schema.Key]string{}}
	r.object(func(name string) {
		switch name {
		case "NextShardIterator":
			next = aws.String(strings.Clone(r.Text()))
		case "Records":
			r.records(&p, sdk)
		default:
			r.Odd = true
		}
	})
	return p, next, !r.Odd && r.Rest == ""
}

// A pageReader reads the records of a page.
//
// A record keeps copies of parts of the body, and equal parts are shared: otherwise a single
// image that is remembered would keep the whole body.
type pageReader struct {
	reader
	copies map[string]string
	keys   map[schema.Key]string // as text
}

// records reads the list of records.
func (r *pageReader) records(p *page, sdk sdkDecoder) {
	const typical = 2 << 10 // bytes of a bucket's record
	p.records = make([]Record, 0, len(r.Rest)/typical+1)
	r.Expect("[")
	for !r.Odd && !r.Skip("]") {
		if len(p.records) > 0 {
			r.Expect(",")
		}
		begin := r.Rest
		record, size := r.record()
		if r.Odd {
			r.Rest, r.Odd = begin, false
			var out dynamodbstreams.GetRecordsOutput
			if sdk(`{"Records":[`+r.value()+`]}`, &out) != nil || len(out.Records) != 1 {
				r.Odd = true
				return
			}
			one := pageOf(out.Records)
			record, size = one.records[0], one.size
		}
		p.records, p.size = append(p.records, record), p.size+size
	}
}

// A change is the content of a record.
type change struct {
	event            streamtypes.OperationType
	at               time.Time
	key              schema.Key
	sequence         string
	size             int64
	old, new         schema.BucketScan
	hasOld, hasNew   bool
	hasKey, hasEvent bool
}

// record reads a record. It is odd if a string has escapes, if there are members that are
// not known, or an identity, as the table's sweep leaves it, or if it is a bucket's and
// cannot be read, shows a deletion, or shows that a limit came or went. It is odd, too, if it is
// a usage snapshot whose key has the peer's form.
func (r *pageReader) record() (out Record, size int64) {
	var c change
	r.object(func(name string) {
		switch name {
		case "eventID":
			out.ID = strings.Clone(r.Text())
		case "eventName":
			c.event, c.hasEvent = streamtypes.OperationType(r.Text()), true
		case "eventVersion", "eventSource", "awsRegion":
			r.Text()
		case "dynamodb":
			r.object(func(name string) { r.change(&c, name) })
		default:
			r.Odd = true
		}
	})
	r.Odd = r.Odd || !c.hasKey || !c.hasEvent
	if r.Odd {
		return out, 0
	}
	text, known := r.keys[c.key]
	if !known {
		text = c.key.String()
		r.keys[c.key] = text
	}
	out.Sequence, out.At = strings.Clone(c.sequence), c.at
	out.Key, out.Namespace = text, schema.NamespaceOf(text[:len(c.key.PK)])
	if c.key.SK == schema.StateSK {
		out.Old, out.New = r.image(&c.old, c.hasOld), r.image(&c.new, c.hasNew)
		r.Odd = r.Odd || out.New == nil || !shows(c.event, out.Old, out.New) || out.Old != nil && !hasSameLimits(out.Old, out.New)
	} else if u, isUsage := schema.ParseUsageKey(c.key); isUsage && u.Peer {
		r.Odd = true // the mark says whose it is
	}
	return out, c.size
}

// change reads a member of a record's content.
func (r *pageReader) change(c *change, member string) {
	switch member {
	case "ApproximateCreationDateTime":
		c.at = r.seconds()
	case "Keys":
		c.hasKey = true
		r.object(func(name string) {
			v := r.attribute()
			r.Odd = r.Odd || v.Kind != schema.String
			switch name {
			case schema.PK:
				c.key.PK = v.Text
			case schema.SK:
				c.key.SK = v.Text
			}
		})
	case "NewImage":
		r.object(func(name string) { c.hasNew = true; c.new.Read(name, r.attribute()) })
	case "OldImage":
		r.object(func(name string) { c.hasOld = true; c.old.Read(name, r.attribute()) })
	case "SequenceNumber":
		c.sequence = r.Text()
	case "SizeBytes":
		c.size = r.integer()
	case "StreamViewType":
		r.Text()
	default:
		r.Odd = true
	}
}

// hasSameLimits reports whether two images have limits of the same names.
func hasSameLimits(a, b *store.Image) bool {
	return slices.EqualFunc(a.Limits, b.Limits, func(l, m store.LimitState) bool { return l.Name == m.Name })
}

// image returns the image of a bucket, nil if it is not there. It is odd if it cannot be
// read: the SDK's way says why.
func (r *pageReader) image(of *schema.BucketScan, there bool) *store.Image {
	if !there {
		return nil
	}
	img, err := of.Image(nil)
	if err != nil {
		r.Odd = true
		return nil
	}
	for _, s := range [...]*string{&img.Entity, &img.Resource, &img.Parent, &img.Incarnation, &img.Writes.Name} {
		*s = r.copyOf(*s)
	}
	for i := range img.Limits {
		img.Limits[i].Name = r.copyOf(img.Limits[i].Name)
	}
	return img
}

func (r *pageReader) copyOf(s string) string {
	kept, known := r.copies[s]
	if !known {
		kept = strings.Clone(s)
		r.copies[kept] = kept
	}
	return kept
}
