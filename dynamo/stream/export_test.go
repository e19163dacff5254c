package stream

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// GetRecords reads a page, and the size of its records.
func GetRecords(ctx context.Context, api API, in *dynamodbstreams.GetRecordsInput) (records []Record, size int64, next *string, err error) {
	p, next, err := getRecords(ctx, api, in)
	return p.records, p.size, next, err
}

// ReadPage reads the body of an answer without the SDK.
func ReadPage(body string) (records []Record, plain bool) {
	p, _, plain := readPage(body, nil)
	return p.records, plain
}
