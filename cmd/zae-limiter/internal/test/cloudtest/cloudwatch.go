package cloudtest

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
)

// DescribeAlarms answers with the alarms that are named and exist.
func (a *Account) DescribeAlarms(ctx context.Context, in *cloudwatch.DescribeAlarmsInput, _ ...func(*cloudwatch.Options)) (*cloudwatch.DescribeAlarmsOutput, error) {
	if err := a.enter(ctx, "cloudwatch:DescribeAlarms"); err != nil {
		return nil, err
	}
	const most = 100
	if len(in.AlarmNames) > most {
		return nil, invalid("1 validation error detected: Value at 'alarmNames' failed to satisfy constraint: Member must have length less than or equal to 100")
	}
	var named []types.MetricAlarm
	for _, alarm := range a.Alarms {
		if slices.Contains(in.AlarmNames, aws.ToString(alarm.AlarmName)) {
			named = append(named, alarm)
		}
	}
	out, next, err := slice(named, in.NextToken)
	return &cloudwatch.DescribeAlarmsOutput{MetricAlarms: out, NextToken: next}, err
}

var queryID = regexp.MustCompile(`^[a-z][A-Za-z0-9_]*$`)

// GetMetricData sums figures up by period. It answers with the results of two queries at a
// time.
func (a *Account) GetMetricData(ctx context.Context, in *cloudwatch.GetMetricDataInput, _ ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error) {
	if err := a.enter(ctx, "cloudwatch:GetMetricData"); err != nil {
		return nil, err
	}
	if in.StartTime == nil || in.EndTime == nil || !in.StartTime.Before(*in.EndTime) {
		return nil, invalid("The parameter StartTime must be less than the parameter EndTime.")
	}
	var results []types.MetricDataResult
	seen := map[string]bool{}
	for _, q := range in.MetricDataQueries {
		id := aws.ToString(q.Id)
		if !queryID.MatchString(id) || seen[id] {
			return nil, invalid("The value " + id + " for parameter Id is not unique or not valid.")
		}
		seen[id] = true
		if q.MetricStat == nil || aws.ToInt32(q.MetricStat.Period)%60 != 0 || aws.ToInt32(q.MetricStat.Period) == 0 {
			return nil, invalid("The parameter Period must be a multiple of 60.")
		}
		results = append(results, a.evaluate(in, &q))
	}
	out, next, err := slice(results, in.NextToken)
	return &cloudwatch.GetMetricDataOutput{MetricDataResults: out, NextToken: next}, err
}

// evaluate answers one query.
func (a *Account) evaluate(in *cloudwatch.GetMetricDataInput, q *types.MetricDataQuery) types.MetricDataResult {
	a.mu.Lock()
	defer a.mu.Unlock()
	period := time.Duration(*q.MetricStat.Period) * time.Second
	byPeriod := map[time.Time]float64{}
	for _, s := range a.samples {
		if !s.matches(q.MetricStat.Metric) || s.at.Before(*in.StartTime) || !s.at.Before(*in.EndTime) {
			continue
		}
		at := s.at.Truncate(period)
		switch was, ok := byPeriod[at]; {
		case aws.ToString(q.MetricStat.Stat) == "Sum":
			byPeriod[at] = was + s.figure
		case !ok || s.figure > was: // Maximum
			byPeriod[at] = s.figure
		}
	}
	result := types.MetricDataResult{Id: q.Id, StatusCode: types.StatusCodeComplete}
	for at := range byPeriod {
		result.Timestamps = append(result.Timestamps, at)
	}
	slices.SortFunc(result.Timestamps, func(x, y time.Time) int {
		if in.ScanBy == types.ScanByTimestampAscending {
			return x.Compare(y)
		}
		return y.Compare(x)
	})
	for _, at := range result.Timestamps {
		result.Values = append(result.Values, byPeriod[at])
	}
	return result
}

func (s *sample) matches(m *types.Metric) bool {
	return s.namespace == aws.ToString(m.Namespace) && s.name == aws.ToString(m.MetricName) && len(m.Dimensions) == 1 &&
		s.dimension == aws.ToString(m.Dimensions[0].Name) && s.value == aws.ToString(m.Dimensions[0].Value)
}

// FilterLogEvents answers with the lines that have one of the pattern's terms. Its first
// page is empty, as those of a search that goes on.
func (a *Account) FilterLogEvents(ctx context.Context, in *cloudwatchlogs.FilterLogEventsInput, _ ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.FilterLogEventsOutput, error) {
	if err := a.enter(ctx, "logs:FilterLogEvents"); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	group, ok := a.lines[aws.ToString(in.LogGroupName)]
	if !ok {
		return nil, &logtypes.ResourceNotFoundException{Message: aws.String("The specified log group does not exist.")}
	}
	const first = "first"
	if in.NextToken == nil {
		return &cloudwatchlogs.FilterLogEventsOutput{NextToken: aws.String(first)}, nil
	}
	var found []logtypes.FilteredLogEvent
	for _, l := range group {
		at := l.at.UnixMilli()
		if at < aws.ToInt64(in.StartTime) || at > aws.ToInt64(in.EndTime) || !hasTerm(l.text, aws.ToString(in.FilterPattern)) {
			continue
		}
		found = append(found, logtypes.FilteredLogEvent{Timestamp: aws.Int64(at), Message: aws.String(l.text)})
	}
	slices.SortStableFunc(found, func(x, y logtypes.FilteredLogEvent) int { return cmp.Compare(*x.Timestamp, *y.Timestamp) })
	token := in.NextToken
	if *token == first {
		token = nil
	}
	out, next, err := slice(found, token)
	return &cloudwatchlogs.FilterLogEventsOutput{Events: out, NextToken: next}, err
}

var term = regexp.MustCompile(`\?(?:"([^"]*)"|(\S+))`)

// hasTerm reports whether a text has one of the terms of a pattern ?a ?"b c".
func hasTerm(text, pattern string) bool {
	for _, m := range term.FindAllStringSubmatch(pattern, -1) {
		if strings.Contains(text, cmp.Or(m[1], m[2])) {
			return true
		}
	}
	return false
}
