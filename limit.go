package limiter

import (
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// milli is the number of millitokens in a token.
const milli = store.Milli

// A LimitOption changes a limit made by one of the constructors.
type LimitOption func(*Limit)

// Burst sets the capacity apart from the rate. The bucket holds at most this many
// tokens, and a burst may take all of them at once.
func Burst(tokens int64) LimitOption {
	return func(l *Limit) { l.Capacity = tokens }
}

// PerSecond is a limit of rate tokens a second.
func PerSecond(name string, rate int64, opts ...LimitOption) Limit {
	return Custom(name, rate, time.Second, opts...)
}

// PerMinute is a limit of rate tokens a minute.
func PerMinute(name string, rate int64, opts ...LimitOption) Limit {
	return Custom(name, rate, time.Minute, opts...)
}

// PerHour is a limit of rate tokens an hour.
func PerHour(name string, rate int64, opts ...LimitOption) Limit {
	return Custom(name, rate, time.Hour, opts...)
}

// PerDay is a limit of rate tokens every 24 hours.
func PerDay(name string, rate int64, opts ...LimitOption) Limit {
	return Custom(name, rate, 24*time.Hour, opts...)
}

// Quota is a limit of amount tokens for each period of a calendar: when a period begins, the
// quota is renewed as a whole, and it earns nothing until the next one. See [ParseRenewal].
func Quota(name string, amount int64, renews *Renewal, opts ...LimitOption) Limit {
	return with(Limit{Name: name, Capacity: amount, Renews: renews}, opts)
}

// ParseRenewal reads when a quota renews, in the time zone of an IANA name; "" is UTC. One or
// several of these, separated by ";":
//
//	day                    at midnight
//	week from monday
//	month                  on its first day
//	month from day 31      on its last day, where it is shorter
//	month from last day
//	year from 29 february  on the 28th in other years
//	0 9 * * mon            five fields of cron
//
// All but the last may end in a time: "day at 06:30". The error is a [*ValidationError].
func ParseRenewal(text, zone string) (*Renewal, error) { return store.ParseRenewal(text, zone) }

// Soft makes a limit count, and never refuse. See [Limit.Soft].
func Soft() LimitOption { return func(l *Limit) { l.Soft = true } }

// InShadow makes a limit count and say what it would refuse, and refuse nobody: for a percentage of
// entities from 1 to 100, which are always the same ones. The others are refused as by any limit.
// See [Limit.Mode].
func InShadow(percent int) LimitOption {
	return func(l *Limit) { l.Mode, l.Percent = Shadow, percent }
}

// SwitchedOff makes a limit refuse nobody, and say nothing; usage still counts what requests take of
// it. See [Limit.Mode].
func SwitchedOff() LimitOption { return func(l *Limit) { l.Mode = Off } }

// Rollover makes a quota take what is left of a period into the next one, up to a maximum. See
// [Limit.Carries].
func Rollover(most int64) LimitOption { return func(l *Limit) { l.Carries.Rollover = most } }

// CarryDebt makes a quota take a debt into the next period. See [Limit.Carries].
func CarryDebt() LimitOption { return func(l *Limit) { l.Carries.Debt = true } }

// Varies gives a limit other parameters at the times of a schedule. See [ParseSchedule].
func Varies(schedule *Schedule) LimitOption {
	return func(l *Limit) { l.Varies = schedule }
}

// ParseSchedule reads when a limit has other parameters, and which, in the time zone of an IANA
// name; "" is UTC. An entry is five fields of cron, and what holds in the minutes that they
// match: a factor of the capacity and of the amount, or parameters in place of the limit's own.
// Several are separated by ";", and of those that match a minute the first one holds:
//
//	0-59 9-16 * * mon-fri x0.5
//	0-59 22-23,0-5 * * * capacity=1000 amount=1000
//	0-59 * 24-26 12 * seconds=3600
//
// The error is a [*ValidationError].
func ParseSchedule(text, zone string) (*Schedule, error) { return store.ParseSchedule(text, zone) }

// Custom is a limit of amount tokens every period. The period is a whole number of
// seconds.
func Custom(name string, amount int64, period time.Duration, opts ...LimitOption) Limit {
	return with(Limit{Name: name, Capacity: amount, Amount: amount, Period: period}, opts)
}

// with is a limit with options.
func with(l Limit, opts []LimitOption) Limit {
	for _, opt := range opts {
		opt(&l)
	}
	return l
}

// Slots is a limit of how many requests run at a time: together they hold at most n slots. The
// slots of a request come back as its lease is committed or rolled back, and within about 20
// seconds if its process dies (ADR 055).
func Slots(name string, n int64) SlotLimit { return SlotLimit{Name: name, Slots: n} }
