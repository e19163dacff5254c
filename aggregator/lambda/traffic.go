package lambda

// trafficMetrics are the metrics in a line of traffic, in the order of its fields.
//
// CloudWatch bills each metric by its name and dimensions, so they are of the whole table. The
// busy buckets are in the line as Shards, which costs no more than the log. A dimension would
// let whoever names entities make metrics: 10 buckets of 32 shards at once, and others a minute
// later.
var trafficMetrics = []metric{
	{"BusiestShardWrites", "Count/Second"},
	{"FewestWritesLeft", "Count"},
	{"AllDoublings", "Count"},
	{"UpkeepThrottles", "Count"},
}

// A trafficLine is the traffic of a minute, in the embedded metric format.
type trafficLine struct {
	header
	Busiest   float64     `json:"BusiestShardWrites"` // a second
	Fewest    int64       `json:"FewestWritesLeft"`
	Doublings int         `json:"AllDoublings"`
	Throttles int         `json:"UpkeepThrottles"`
	Other     float64     `json:"OtherWrites"` // a second
	Shards    []busyShard `json:"Shards"`
}

// A busyShard is the traffic of a shard of a busy bucket.
type busyShard struct {
	Namespace  string  `json:"NamespaceID"`
	Entity     string  `json:"Entity"`
	Resource   string  `json:"Resource"`
	Shard      int     `json:"Shard"`
	Writes     float64 `json:"WritesPerSecond"`
	WritesLeft int64   `json:"WritesLeft"`
	Doublings  int     `json:"Doublings"`
	Throttles  int     `json:"Throttles"`
}

// measureTraffic writes the traffic of a minute, once.
func (h *Handler) measureTraffic() error {
	t := h.aggregator.Traffic()
	h.mu.Lock()
	isNew := t.To.After(h.told)
	if isNew {
		h.told = t.To
	}
	h.mu.Unlock()
	if !isNew {
		return nil
	}
	sum := t.Other
	l := trafficLine{header: h.header(t.To, trafficMetrics), Other: t.Other.PerSecond(), Shards: []busyShard{}}
	for i := range t.Shards {
		s := &t.Shards[i]
		sum.Add(s)
		l.Busiest = max(l.Busiest, s.PerSecond())
		l.Shards = append(l.Shards, busyShard{
			s.Namespace, s.Entity, s.Resource, s.Shard, s.PerSecond(), s.WritesLeft, s.Doublings, s.Throttles,
		})
	}
	l.Fewest, l.Doublings, l.Throttles = sum.WritesLeft, sum.Doublings, sum.Throttles
	return h.write(&l)
}
