//go:build conformance

package differential_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// writesAndTables are the operations that feed a stream.
type writesAndTables interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DeleteTable(context.Context, *dynamodb.DeleteTableInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteTableOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// reads are the operations that read a stream.
type reads interface {
	ListStreams(context.Context, *dynamodbstreams.ListStreamsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.ListStreamsOutput, error)
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

// streamed is one engine with a table that has a stream.
type streamed struct {
	t      *testing.T
	writes writesAndTables
	reads  reads
	table  string
	arn    string
}

// TestLiveStreams sends the same writes to DynamoDB Local and to this engine. It compares the
// records of their streams, and their answers to requests for iterators. It ends when the table
// is deleted.
func TestLiveStreams(t *testing.T) { //nolint:paralleltest // the subtests share a server, which is slow with more than one stream at a time
	local := peers.DynamoDBLocal(t)
	options := local.Client.Options()
	localStreams := dynamodbstreams.New(dynamodbstreams.Options{
		Region: peers.Region, BaseEndpoint: aws.String(local.Endpoint), Credentials: options.Credentials, RetryMaxAttempts: 1,
	})
	db := dynamolite.New(dynamolite.Options{})
	for _, view := range types.StreamViewType("").Values() {
		t.Run(string(view), func(t *testing.T) { //nolint:paralleltest // as above
			table := "streamed-" + strings.ToLower(string(view))
			theirs := &streamed{t: t, writes: local.Client, reads: localStreams, table: table}
			ours := &streamed{t: t, writes: db, reads: db, table: table}
			var facts [2][]string
			for i, s := range []*streamed{theirs, ours} {
				s.create(view)
				s.write()
				facts[i] = slices.Concat(s.description(), s.records(), s.answers())
				if _, err := s.writes.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &table}); err != nil {
					t.Fatal(err)
				}
				facts[i] = append(facts[i], s.ended()...)
			}
			if d := cmp.Diff(facts[0], facts[1]); d != "" {
				t.Errorf("(-DynamoDB Local +dynamolite)\n%s", d)
			}
			if len(facts[0]) < 40 {
				t.Errorf("only %d facts are compared", len(facts[0]))
			}
		})
	}
}

func (s *streamed) create(view types.StreamViewType) {
	s.t.Helper()
	out, err := s.writes.CreateTable(s.t.Context(), &dynamodb.CreateTableInput{
		TableName: &s.table, BillingMode: types.BillingModePayPerRequest,
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange},
		},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}, {AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeN},
		},
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: view},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.arn = *out.TableDescription.LatestStreamArn
}

type item = map[string]types.AttributeValue

func streamText(v string) types.AttributeValue   { return &types.AttributeValueMemberS{Value: v} }
func streamNumber(v string) types.AttributeValue { return &types.AttributeValueMemberN{Value: v} }

// write makes every kind of write, some of which change nothing or fail. All are in one
// partition, whose records have one order.
func (s *streamed) write() {
	s.t.Helper()
	ctx, t := s.t.Context(), &s.table
	key := func(sk string) item { return item{"pk": streamText("héy"), "sk": streamNumber(sk)} }
	full := func(sk, v string) item {
		return item{
			"pk": streamText("héy"), "sk": streamNumber(sk), "v": streamText(v), "n": streamNumber("-12.50"), "b": &types.AttributeValueMemberB{Value: []byte{0, 1}},
			"t": &types.AttributeValueMemberBOOL{Value: true}, "u": &types.AttributeValueMemberNULL{Value: true}, "ss": &types.AttributeValueMemberSS{Value: []string{"x"}},
			"ns": &types.AttributeValueMemberNS{Value: []string{"7"}}, "bs": &types.AttributeValueMemberBS{Value: [][]byte{{2}}},
			"l": &types.AttributeValueMemberL{Value: []types.AttributeValue{streamText("e"), &types.AttributeValueMemberL{}}}, "m": &types.AttributeValueMemberM{Value: item{"k": streamText("")}},
		}
	}
	put := func(i item) error {
		_, err := s.writes.PutItem(ctx, &dynamodb.PutItemInput{TableName: t, Item: i})
		return err
	}
	update := func(sk, expression, condition string, values item) error {
		in := &dynamodb.UpdateItemInput{TableName: t, Key: key(sk), UpdateExpression: &expression, ExpressionAttributeValues: values}
		if condition != "" {
			in.ConditionExpression = &condition
		}
		_, err := s.writes.UpdateItem(ctx, in)
		return err
	}
	remove := func(sk string) error {
		_, err := s.writes.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: t, Key: key(sk)})
		return err
	}
	transact := func(writes ...types.TransactWriteItem) error {
		_, err := s.writes.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
		return err
	}
	set := func(sk, v string) types.TransactWriteItem {
		return types.TransactWriteItem{Update: &types.Update{TableName: t, Key: key(sk), UpdateExpression: aws.String("SET v = :v"), ExpressionAttributeValues: item{":v": streamText(v)}}}
	}
	batch := func(writes ...types.WriteRequest) error {
		_, err := s.writes.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{s.table: writes}})
		return err
	}
	for i, step := range []struct {
		err   error
		fails bool
	}{
		{put(full("1", "x")), false},
		{put(full("1", "x")), false}, // no change
		{put(full("1", "yy")), false},
		{update("1", "SET v = :v, n = n + :one", "", item{":v": streamText("z"), ":one": streamNumber("1")}), false},
		{update("1", "SET v = :v", "", item{":v": streamText("z")}), false},                                                   // no change
		{update("1", "SET n = :n", "", item{":n": streamNumber("-11.5")}), false},                                             // no change
		{update("1", "REMOVE nothing ADD ss :s", "", item{":s": &types.AttributeValueMemberSS{Value: []string{"x"}}}), false}, // no change
		{update("1", "SET v = :v", "attribute_not_exists(pk)", item{":v": streamText("q")}), true},
		{update("12345", "ADD n :one", "", item{":one": streamNumber("1")}), false}, // creates the item
		{update("12345", "REMOVE n", "", nil), false},
		{remove("12345"), false},
		{remove("12345"), false}, // no change
		{transact(set("7", "a")), false},
		{transact(set("7", "a")), false}, // no change
		{transact(types.TransactWriteItem{Delete: &types.Delete{TableName: t, Key: key("7")}}), false},
		{transact(set("8", "b"), types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: t, Key: key("9"), ConditionExpression: aws.String("attribute_exists(pk)")}}), true},
		{batch(types.WriteRequest{PutRequest: &types.PutRequest{Item: key("30")}}), false},
		{batch(types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key("30")}}), false},
		{batch(types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key("30")}}), false}, // no change
	} {
		if (step.err != nil) != step.fails {
			s.t.Fatalf("step %d: %v", i, step.err)
		}
	}
}

func (s *streamed) describe() *streamtypes.StreamDescription {
	s.t.Helper()
	out, err := s.reads.DescribeStream(s.t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: &s.arn})
	if err != nil {
		s.t.Fatal(err)
	}
	return out.StreamDescription
}

// description returns the properties of a stream that both engines share: DynamoDB Local has one
// shard.
func (s *streamed) description() []string {
	s.t.Helper()
	d := s.describe()
	facts := []string{fmt.Sprint(d.StreamStatus, d.StreamViewType, *d.TableName, d.LastEvaluatedShardId == nil), "label " + shape(*d.StreamLabel)}
	for _, k := range d.KeySchema {
		facts = append(facts, fmt.Sprint("key ", *k.AttributeName, k.KeyType))
	}
	for _, sh := range d.Shards[:1] {
		r := sh.SequenceNumberRange
		facts = append(facts, fmt.Sprint("shard ", shape(*sh.ShardId), sh.ParentShardId == nil, shape(*r.StartingSequenceNumber), r.EndingSequenceNumber == nil))
	}
	return facts
}

// shape replaces every digit and every hexadecimal letter by the same sign.
func shape(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789abcdef", r) {
			return '0'
		}
		return r
	}, s)
}

// all returns the shard with the records, and these records.
func (s *streamed) all() (shard string, records []streamtypes.Record) {
	s.t.Helper()
	for _, sh := range s.describe().Shards {
		if out, err := s.from(*sh.ShardId, streamtypes.ShardIteratorTypeTrimHorizon, nil); err != nil {
			s.t.Fatal(err)
		} else if len(out.Records) > 0 {
			shard, records = *sh.ShardId, append(records, out.Records...)
		}
	}
	return shard, records
}

// from reads the first page from a position.
func (s *streamed) from(shard string, from streamtypes.ShardIteratorType, sequence *string) (*dynamodbstreams.GetRecordsOutput, error) {
	it, err := s.reads.GetShardIterator(s.t.Context(), &dynamodbstreams.GetShardIteratorInput{
		StreamArn: &s.arn, ShardId: &shard, ShardIteratorType: from, SequenceNumber: sequence,
	})
	if err != nil {
		return nil, err
	}
	return s.reads.GetRecords(s.t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: it.ShardIterator})
}

func (s *streamed) records() (facts []string) {
	s.t.Helper()
	_, records := s.all()
	for _, r := range records {
		d := r.Dynamodb
		facts = append(facts, fmt.Sprint(r.EventName, *r.EventSource, *r.EventVersion, r.UserIdentity == nil, d.StreamViewType, *d.SizeBytes, " ", shape(*d.SequenceNumber)),
			"keys "+image(d.Keys), "old "+image(d.OldImage), "new "+image(d.NewImage))
		if d.ApproximateCreationDateTime.Nanosecond() != 0 || d.ApproximateCreationDateTime.IsZero() {
			s.t.Errorf("a record of %v", d.ApproximateCreationDateTime)
		}
	}
	return facts
}

// image returns an image as text, its attributes by name.
func image(m map[string]streamtypes.AttributeValue) string {
	if m == nil {
		return "none"
	}
	var parts []string
	for name, v := range m {
		parts = append(parts, name+"="+imageValue(v))
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, " ") + "}"
}

func imageValue(v streamtypes.AttributeValue) string {
	switch v := v.(type) {
	case *streamtypes.AttributeValueMemberL:
		var parts []string
		for _, e := range v.Value {
			parts = append(parts, imageValue(e))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case *streamtypes.AttributeValueMemberM:
		return image(v.Value)
	}
	return fmt.Sprintf("%T%v", v, v)
}

// answers returns the results of requests for iterators and limits: the number of records, or the
// error.
func (s *streamed) answers() (facts []string) {
	s.t.Helper()
	shard, records := s.all()
	if len(records) < 2 {
		s.t.Fatalf("%d records", len(records))
	}
	first, last := *records[0].Dynamodb.SequenceNumber, *records[len(records)-1].Dynamodb.SequenceNumber
	for _, from := range streamtypes.ShardIteratorType("").Values() {
		if from == streamtypes.ShardIteratorTypeAtTimestamp { // newer than DynamoDB Local
			continue
		}
		for name, sequence := range map[string]*string{
			"": nil, "first": &first, "last": &last, "empty": aws.String(""), "short": aws.String("5"), "zero": aws.String(strings.Repeat("0", 21)),
			"negative": aws.String("-00000000000000000001"), "long": aws.String(strings.Repeat("0", 41)), "far": aws.String("000000000000999999999"),
		} {
			out, err := s.from(shard, from, sequence)
			facts = append(facts, fmt.Sprint(from, " ", name, ": ", recordsAnswer(out, err)))
		}
	}
	for _, id := range []string{"short", "shardId-00000000000000000000-00000000"} {
		out, err := s.from(id, streamtypes.ShardIteratorTypeLatest, nil)
		facts = append(facts, fmt.Sprint("shard ", id, ": ", recordsAnswer(out, err)))
	}
	for i, token := range []string{"", "x", s.arn, s.arn + "|1|AAAA"} {
		out, err := s.reads.GetRecords(s.t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: &token})
		facts = append(facts, fmt.Sprint("token ", i, ": ", recordsAnswer(out, err)))
	}
	it, err := s.reads.GetShardIterator(s.t.Context(), &dynamodbstreams.GetShardIteratorInput{
		StreamArn: &s.arn, ShardId: &shard, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, limit := range []int32{-1, 0, 1, 2, 1000} { // above 1000 DynamoDB Local has another error than AWS documents
		out, err := s.reads.GetRecords(s.t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: it.ShardIterator, Limit: &limit})
		facts = append(facts, fmt.Sprint("limit ", limit, ": ", recordsAnswer(out, err)))
		_, err = s.reads.DescribeStream(s.t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: &s.arn, Limit: &limit})
		facts = append(facts, fmt.Sprint("describe, limit ", limit, ": ", recordsAnswer(nil, err)))
		_, err = s.reads.ListStreams(s.t.Context(), &dynamodbstreams.ListStreamsInput{Limit: &limit})
		facts = append(facts, fmt.Sprint("list, limit ", limit, ": ", recordsAnswer(nil, err)))
	}
	none := s.arn + "0"
	_, err = s.reads.DescribeStream(s.t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: &none})
	facts = append(facts, "no stream: "+recordsAnswer(nil, err))
	slices.Sort(facts)
	return facts
}

func recordsAnswer(out *dynamodbstreams.GetRecordsOutput, err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	switch {
	case err != nil:
		return err.Error()
	case out == nil:
		return "fine"
	}
	return fmt.Sprintf("%d records, goes on %v", len(out.Records), out.NextShardIterator != nil)
}

// ended returns the remains of the stream of a deleted table.
func (s *streamed) ended() []string {
	s.t.Helper()
	d := s.describe()
	shard, records := s.all()
	list, err := s.reads.ListStreams(s.t.Context(), &dynamodbstreams.ListStreamsInput{TableName: &s.table})
	if err != nil {
		s.t.Fatal(err)
	}
	facts := []string{fmt.Sprint("listed ", len(list.Streams), ", shards are closed ", d.Shards[0].SequenceNumberRange.EndingSequenceNumber != nil)}
	for _, from := range []streamtypes.ShardIteratorType{streamtypes.ShardIteratorTypeTrimHorizon, streamtypes.ShardIteratorTypeLatest} {
		out, err := s.from(shard, from, nil)
		facts = append(facts, fmt.Sprint("ended, ", from, ": ", recordsAnswer(out, err)))
	}
	last := *records[len(records)-1].Dynamodb.SequenceNumber
	for name, sequence := range map[string]string{"last": last, "far": "000000000000999999999"} {
		for _, from := range []streamtypes.ShardIteratorType{streamtypes.ShardIteratorTypeAtSequenceNumber, streamtypes.ShardIteratorTypeAfterSequenceNumber} {
			out, err := s.from(shard, from, &sequence)
			facts = append(facts, fmt.Sprint("ended, ", from, " ", name, ": ", recordsAnswer(out, err)))
		}
	}
	slices.Sort(facts)
	return append(facts, "status "+string(d.StreamStatus))
}
