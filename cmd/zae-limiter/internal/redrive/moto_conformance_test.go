//go:build conformance

package redrive_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/redrive"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// The client of SQS receives, deletes and makes visible again on moto's queue.
func TestRedriveOfAQueueOfMoto(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := sqs.New(sqs.Options{
		Region: peers.Region, BaseEndpoint: aws.String(peers.Moto(t)),
		Credentials: credentials.NewStaticCredentialsProvider(peers.AccessKey, peers.SecretKey, ""),
	})
	created, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("dlq")})
	w.Must(err)
	for _, r := range w.deletions(12) {
		w.send(r)
	}
	w.messages = append(w.messages, &queued{body: "hello"})
	for _, m := range w.messages {
		_, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: created.QueueUrl, MessageBody: &m.body})
		w.Must(err)
	}
	outcomes := w.runOn(redrive.Options{Queue: client, URL: *created.QueueUrl})
	if len(outcomes) != len(w.messages) {
		t.Errorf("%d outcomes of %d messages", len(outcomes), len(w.messages))
	}
	w.wantUsed(12)
	left, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: created.QueueUrl,
		AttributeNames: []types.QueueAttributeName{
			types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		},
	})
	w.Must(err)
	if a := left.Attributes; a["ApproximateNumberOfMessages"] != "1" || a["ApproximateNumberOfMessagesNotVisible"] != "0" {
		t.Errorf("left are %v, want the foreign message, visible", a)
	}
}
