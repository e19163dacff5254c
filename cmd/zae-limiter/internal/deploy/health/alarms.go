package health

import (
	"cmp"
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
)

// maxAlarmNames is how many alarms one request of DescribeAlarms may name.
const maxAlarmNames = 100

// alarms reads the alarms of the site, in the order of their names.
func (r *reader) alarms(ctx context.Context) ([]Alarm, error) {
	found := map[string]Alarm{}
	for names := range slices.Chunk(r.o.Site.Alarms, maxAlarmNames) {
		in := &cloudwatch.DescribeAlarmsInput{AlarmNames: names, AlarmTypes: []types.AlarmType{types.AlarmTypeMetricAlarm}}
		for pages := cloudwatch.NewDescribeAlarmsPaginator(r.o.Clients.Watch, in); pages.HasMorePages(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for i := range page.MetricAlarms {
				a := alarmOf(&page.MetricAlarms[i])
				found[a.Name] = a
			}
		}
	}
	all := make([]Alarm, 0, len(r.o.Site.Alarms))
	for _, name := range r.o.Site.Alarms {
		a, ok := found[name]
		if !ok {
			a = Alarm{Name: name, State: AlarmMissing}
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b Alarm) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func alarmOf(a *types.MetricAlarm) Alarm {
	since := a.StateTransitionedTimestamp
	if since == nil {
		since = a.StateUpdatedTimestamp
	}
	return Alarm{
		Name: aws.ToString(a.AlarmName), State: string(a.StateValue), Reason: oneLine(aws.ToString(a.StateReason)), Since: aws.ToTime(since).UTC(),
		Acts: aws.ToBool(a.ActionsEnabled) && len(a.AlarmActions) > 0,
	}
}
