//go:build conformance

package emulated_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// lastBody keeps the body of the last answer.
type lastBody struct{ text []byte }

func (l *lastBody) RoundTrip(r *http.Request) (*http.Response, error) {
	out, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	l.text, err = io.ReadAll(out.Body)
	_ = out.Body.Close()
	out.Body = io.NopCloser(bytes.NewReader(l.text))
	return out, err
}

// event has all records of the stream of the function's table, as Lambda delivers them: in
// the form in which the stream's API answers them.
func (f *function) event() []byte {
	t := f.t
	t.Helper()
	body := &lastBody{}
	streams := dynamodbstreams.NewFromConfig(f.config, func(o *dynamodbstreams.Options) { o.HTTPClient = &http.Client{Transport: body} })
	described, err := f.db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(functionTable)})
	if err != nil {
		t.Fatal(err)
	}
	arn := described.Table.LatestStreamArn
	stream, err := streams.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	if err != nil {
		t.Fatal(err)
	}
	all := struct{ Records []json.RawMessage }{}
	for _, shard := range stream.StreamDescription.Shards {
		at, err := streams.GetShardIterator(t.Context(), &dynamodbstreams.GetShardIteratorInput{
			StreamArn: arn, ShardId: shard.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: at.ShardIterator}); err != nil {
			t.Fatal(err)
		}
		var page struct{ Records []json.RawMessage }
		if err := json.Unmarshal(body.text, &page); err != nil {
			t.Fatal(err)
		}
		all.Records = append(all.Records, page.Records...)
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
