package health

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	lambdametrics "github.com/zeroae/zae-limiter-go/aggregator/lambda"
)

// resolution is the period of the figures. CloudWatch keeps figures of one minute for 15
// days.
const resolution = time.Minute

// A metric is one metric with its one dimension.
type metric struct{ namespace, name, dimension, value, stat string }

// A point is one figure.
type point struct {
	at    time.Time
	value float64
}

// figures reads metrics of the last window in one request, page by page. The points of each
// are in the order of time; a metric without data has none.
func (r *reader) figures(ctx context.Context, window time.Duration, metrics []metric) ([][]point, error) {
	in := &cloudwatch.GetMetricDataInput{
		StartTime: aws.Time(r.now.Add(-window).Truncate(resolution)), EndTime: aws.Time(r.now.Add(resolution)), ScanBy: types.ScanByTimestampAscending,
	}
	for i, m := range metrics {
		in.MetricDataQueries = append(in.MetricDataQueries, types.MetricDataQuery{
			Id: aws.String(fmt.Sprintf("m%d", i)),
			MetricStat: &types.MetricStat{
				Stat: &m.stat, Period: aws.Int32(int32(resolution.Seconds())),
				Metric: &types.Metric{Namespace: &m.namespace, MetricName: &m.name, Dimensions: []types.Dimension{{Name: &m.dimension, Value: &m.value}}},
			},
		})
	}
	out := make([][]point, len(metrics))
	for pages := cloudwatch.NewGetMetricDataPaginator(r.o.Clients.Watch, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, result := range page.MetricDataResults {
			if err := add(out, &result); err != nil {
				return nil, err
			}
		}
	}
	for _, points := range out {
		slices.SortFunc(points, func(a, b point) int { return a.at.Compare(b.at) })
	}
	return out, nil
}

// add adds a page's points of one metric. CloudWatch may refuse a single metric of a request.
func add(out [][]point, result *types.MetricDataResult) error {
	if result.StatusCode == types.StatusCodeForbidden || result.StatusCode == types.StatusCodeInternalError {
		return fmt.Errorf("%w: CloudWatch answers %s for a metric%s", errIncomplete, result.StatusCode, notes(result.Messages))
	}
	for i := range out {
		if aws.ToString(result.Id) != fmt.Sprintf("m%d", i) {
			continue
		}
		for j := range min(len(result.Timestamps), len(result.Values)) {
			out[i] = append(out[i], point{result.Timestamps[j], result.Values[j]})
		}
	}
	return nil
}

func notes(messages []types.MessageData) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(": " + aws.ToString(m.Value))
	}
	return b.String()
}

// activity reads the metrics of a function. With a table, these include the iterator age and
// the aggregator's own metrics.
func (r *reader) activity(ctx context.Context, function, table string) (Activity, error) {
	ofFunction := func(name, stat string) metric { return metric{"AWS/Lambda", name, "FunctionName", function, stat} }
	metrics := []metric{ofFunction("Invocations", "Sum"), ofFunction("Errors", "Sum"), ofFunction("Throttles", "Sum")}
	if table != "" {
		metrics = append(
			metrics, ofFunction("IteratorAge", "Maximum"),
			metric{lambdametrics.DefaultNamespace, "FailedRecords", "Table", table, "Sum"},
			metric{lambdametrics.DefaultNamespace, "PoisonedRecords", "Table", table, "Sum"},
		)
	}
	got, err := r.figures(ctx, SumWindow, metrics)
	if err != nil {
		return Activity{}, err
	}
	a := Activity{Calls: sum(got[0]), Errors: sum(got[1]), Throttles: sum(got[2])}
	if table != "" {
		a.IteratorAge, a.IteratorAgeMax = lastAndMost(got[3], r.now.Add(-AgeWindow))
		a.Failed, a.Poisoned = sum(got[4]), sum(got[5])
	}
	return a, nil
}

func sum(points []point) (total float64) {
	for _, p := range points {
		total += p.value
	}
	return total
}

// lastAndMost returns the newest and the highest value since an instant; nil without any.
func lastAndMost(points []point, since time.Time) (last, most *float64) {
	for i := range points {
		if points[i].at.Before(since) {
			continue
		}
		last = &points[i].value
		if most == nil || *last > *most {
			most = last
		}
	}
	return last, most
}
