package health

import (
	"context"
	"fmt"
	"path"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// deadLetters reads the queue of what the aggregator gave up on.
func (r *reader) deadLetters(ctx context.Context, report *Report) {
	url := r.o.Site.DeadLetters
	if url == "" {
		return
	}
	q := &Queue{URL: url}
	report.DeadLetters = q
	read(ctx, r, &q.Counts, "sqs:GetQueueAttributes", func(ctx context.Context) (Counts, error) { return r.counts(ctx, url) })
	r.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
		defer cancel()
		q.Oldest = r.oldest(ctx, url)
	})
}

func (r *reader) counts(ctx context.Context, url string) (Counts, error) {
	out, err := r.o.Clients.Queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &url,
		AttributeNames: []types.QueueAttributeName{
			types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		},
	})
	if err != nil {
		return Counts{}, err
	}
	visible, err1 := strconv.Atoi(out.Attributes[string(types.QueueAttributeNameApproximateNumberOfMessages)])
	inFlight, err2 := strconv.Atoi(out.Attributes[string(types.QueueAttributeNameApproximateNumberOfMessagesNotVisible)])
	if err1 != nil || err2 != nil {
		return Counts{}, fmt.Errorf("%w: the answer of SQS has no number of messages", errIncomplete)
	}
	return Counts{visible, inFlight}, nil
}

// oldest reads the age of the oldest message, which only a metric tells.
func (r *reader) oldest(ctx context.Context, url string) Part[Oldest] {
	got, err := r.figures(ctx, AgeWindow, []metric{{"AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", path.Base(url), "Maximum"}})
	if err != nil {
		return Failed[Oldest]("cloudwatch:GetMetricData", err)
	}
	last, _ := lastAndMost(got[0], r.now.Add(-AgeWindow))
	if last == nil || *last == 0 {
		return Part[Oldest]{}
	}
	return Read(Oldest{*last})
}
