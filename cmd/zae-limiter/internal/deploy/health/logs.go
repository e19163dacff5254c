package health

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
)

// errorPattern matches lines of errors: the log levels of this program and of the Python
// package, crashes, and what Lambda itself says of a call that ended badly.
const errorPattern = `?ERROR ?panic ?"fatal error" ?"Task timed out" ?errorMessage ?"Runtime exited"`

// lookBack are the ages up to which the log is searched, one after the other. The newest
// errors are thus found without a search through a whole day.
var lookBack = []time.Duration{10 * time.Minute, time.Hour, ErrorWindow}

// lastError finds the newest line of an error in a log group. Without any it is absent. A
// group that does not exist has none: Lambda makes it at the first call.
func (r *reader) lastError(ctx context.Context, group string) Part[LogLine] {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	until := r.now.Add(resolution)
	for _, age := range lookBack {
		since := r.now.Add(-age)
		line, err := r.newest(ctx, group, since, until)
		switch {
		case err != nil && kindOf(err) == NotFound:
			return Part[LogLine]{}
		case err != nil:
			return Failed[LogLine]("logs:FilterLogEvents", err)
		case line != nil:
			return Part[LogLine]{Value: line}
		}
		until = since
	}
	return Part[LogLine]{}
}

// newest returns the newest line of an error between two instants, nil without any. Pages
// may be empty and more may follow.
func (r *reader) newest(ctx context.Context, group string, since, until time.Time) (*LogLine, error) {
	in := &cloudwatchlogs.FilterLogEventsInput{
		LogGroupName: &group, FilterPattern: aws.String(errorPattern),
		StartTime: aws.Int64(since.UnixMilli()), EndTime: aws.Int64(until.UnixMilli()),
	}
	var newest *LogLine
	for pages := cloudwatchlogs.NewFilterLogEventsPaginator(r.o.Clients.Logs, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Events {
			if at := time.UnixMilli(aws.ToInt64(e.Timestamp)).UTC(); newest == nil || !at.Before(newest.Time) {
				newest = &LogLine{at, oneLine(aws.ToString(e.Message))}
			}
		}
	}
	return newest, nil
}
