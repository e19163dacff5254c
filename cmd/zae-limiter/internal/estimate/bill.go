package estimate

import "fmt"

// A Bill is what a month of 730 hours costs, in dollars.
type Bill struct {
	OnDemand    float64 `json:"on_demand"`   // dollars a month on demand
	Provisioned float64 `json:"provisioned"` // dollars a month with provisioned capacity
	// Lines are the costs on demand, part by part.
	Lines []Line `json:"lines"`
	// BreakEven is the share of the provisioned write and read capacity that must be used
	// on average, so that provisioned capacity costs as much as on demand.
	BreakEven float64 `json:"break_even_utilization"`
	// Advice says what would lower the bill.
	Advice []string `json:"advice"`
}

// A Line is what one cause costs a month.
type Line struct {
	Name    string  `json:"name"` // what is paid for
	Dollars float64 `json:"dollars"`
}

// Utilization is the share of provisioned capacity that a steady load may use, as
// automatic scaling aims at by default. The bill on provisioned capacity rests on it.
const Utilization = 0.7

const (
	hours    = 730 // of a month
	seconds  = hours * 3600
	million  = 1e6
	gigabyte = 1 << 30
)

// Bill works out a month's bill. The provisioned capacity is that of a steady load at
// [Utilization]; a load that varies needs more.
func (e *Estimate) Bill(p *Prices) Bill {
	var b Bill
	units := func(part Part) float64 {
		return (part.Writes*p.WriteUnits.Dollars + part.Reads*p.ReadUnits.Dollars) * seconds / million
	}
	for _, part := range e.Parts {
		b.add(part.Name, units(part))
	}
	rest := b.addFixed(e, p)
	b.OnDemand = units(e.Sum) + rest
	hour := e.Sum.Writes*p.WriteCapacity.Dollars + e.Sum.Reads*p.ReadCapacity.Dollars
	b.Provisioned = hour*hours/Utilization + rest
	if used := units(e.Sum); used > 0 {
		b.BreakEven = hour * hours / used
	}
	b.Advice = e.advice(&b)
	return b
}

// addFixed adds what both kinds of capacity cost, and returns its sum.
func (b *Bill) addFixed(e *Estimate, p *Prices) (sum float64) {
	f, calls := &e.Load.Function, e.Invocations*seconds
	const megabytes = 1024
	for _, l := range []Line{
		{"storage", e.StoredBytes / gigabyte * p.Storage.Dollars},
		{"function calls", calls / million * p.FunctionCalls.Dollars},
		{"function time", calls * f.Duration.Seconds() * float64(f.Memory) / megabytes * p.FunctionTime.Dollars},
		{"logs", calls * float64(f.LogBytes) / gigabyte * p.Logs.Dollars},
	} {
		b.add(l.Name, l.Dollars)
		sum += l.Dollars
	}
	return sum
}

func (b *Bill) add(name string, dollars float64) {
	if dollars > 0 {
		b.Lines = append(b.Lines, Line{name, dollars})
	}
}

// share is the share of the bill on demand of a line.
func (b *Bill) share(name string) float64 {
	for _, l := range b.Lines {
		if l.Name == name {
			return l.Dollars / b.OnDemand
		}
	}
	return 0
}

// advice names the causes that are worth looking at.
func (e *Estimate) advice(b *Bill) (all []string) {
	const much = 0.1
	l := &e.Load
	say := func(when bool, format string, args ...any) {
		if when {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	percent := func(name string) float64 { return b.share(name) * 100 }
	say(b.share(PartContention)+b.share(PartRefused) > much && l.Processes > 1,
		"retries and refusals are %.0f %%: send the requests of an entity to one process, so that it knows the bucket", percent(PartContention)+percent(PartRefused))
	say(b.share(PartConfig) > much, "comparisons are %.0f %%: a longer ConfigTTL, or fewer processes for each entity, cost less", percent(PartConfig))
	say(b.share(PartAdjusted) > much, "adjustments are %.0f %%: adjust only where the estimate was far off", percent(PartAdjusted))
	say(l.ItemBytes > kilobyte, "an item has %d bytes: below 1 KB each write costs one unit; use fewer limits or shorter names", l.ItemBytes)
	say(b.Provisioned < b.OnDemand, "provisioned capacity is cheaper if the load is steady: above %.0f %% use on average", b.BreakEven*100)
	return all
}
