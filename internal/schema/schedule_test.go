package schema_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A limit has the schedule that it says itself, else the item's; "-" is none. What this
// version cannot evaluate is an unsupported feature, never another schedule.
func TestPeersSchedules(t *testing.T) {
	t.Parallel()
	half, night := schedule("* 9-17 * * mon-fri x0.5", "UTC"), schedule("* 0-5 * * * capacity=5", "UTC")
	for name, c := range map[string]struct {
		changes  schema.Item
		rpm, tpm *store.Schedule
		foreign  bool
	}{
		"none":                 {nil, nil, nil, false},
		"the default holds":    {schema.Item{schema.Sched: schema.S("1h9-17w1-5s500")}, half, half, false},
		"an override":          {schema.Item{schema.Sched: schema.S("1h9-17w1-5s500"), "b_tpm_sched": schema.S("1h0-5c5")}, half, night, false},
		"one that opts out":    {schema.Item{schema.Sched: schema.S("1h9-17w1-5s500"), "b_tpm_sched": schema.S("-")}, half, nil, false},
		"no default, an own":   {schema.Item{"b_rpm_sched": schema.S("1h0-5c5")}, night, nil, false},
		"another zone":         {schema.Item{schema.SchedTZ: schema.S("Europe/Berlin"), "b_rpm_sched": schema.S("1h0-5c5")}, schedule("* 0-5 * * * capacity=5", "Europe/Berlin"), nil, false},
		"an unknown zone":      {schema.Item{schema.SchedTZ: schema.S("Mars/Olympus"), "b_rpm_sched": schema.S("1h0-5c5")}, nil, nil, true},
		"a newer encoding":     {schema.Item{schema.Sched: schema.S("2h9s500")}, nil, nil, true},
		"a newer override":     {schema.Item{schema.Sched: schema.S("1h9-17w1-5s500"), "b_tpm_sched": schema.S("2h9s500")}, half, nil, true},
		"not a text":           {schema.Item{"b_rpm_sched": n("1")}, nil, nil, true},
		"of edges":             {schema.Item{"b_rpm_sched": schema.S("1m0h0")}, nil, nil, true},
		"of a quota":           {schema.Item{"b_rpm_sched": schema.S("1h0-5c5"), "b_rpm_ra": n("0"), "b_rpm_rsched": schema.S("1m0h0")}, night, nil, false},
		"of a session":         {schema.Item{"b_rpm_sched": schema.S("1h0-5c5"), "b_rpm_ra": n("0"), "b_rpm_rsa": n("60")}, night, nil, false},
		"a rate of a quota":    {schema.Item{"b_rpm_sched": schema.S("1h0-5a5"), "b_rpm_ra": n("0"), "b_rpm_rsched": schema.S("1m0h0")}, nil, nil, true},
		"of one that carries":  {schema.Item{"b_rpm_sched": schema.S("1h0-5c5"), "b_rpm_ra": n("0"), "b_rpm_rsched": schema.S("1m0h0"), "b_rpm_co": schema.S("1d")}, nil, nil, true},
		"of a limit of no use": {schema.Item{"b_rpm_sched": schema.S("1h0-5c5"), "b_rpm_ra": n("0")}, nil, nil, true},
		"of a limit not there": {schema.Item{"b_rph_sched": schema.S("2h9s500")}, nil, nil, false},
		"of the hidden limit":  {schema.Item{"b_wcu_sched": schema.S("2h9s500")}, nil, nil, false},
	} {
		img, err := schema.DecodeBucket(edited(t, c.changes))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rpm, _ := img.Limit("rpm")
		tpm, _ := img.Limit("tpm")
		if rpm.Varies != c.rpm || tpm.Varies != c.tpm || img.IsEvaluable() == c.foreign || img.Writes.Varies != nil {
			t.Errorf("%s: rpm varies %v, tpm %v, features %v", name, rpm.Varies, tpm.Varies, img.Features)
		}
	}
}

// An item is in step if it says so of its stamp, which a peer moves alone.
func TestAnItemIsInStepAtItsStamp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes schema.Item
		want    bool
	}{
		"it says nothing": {nil, false},
		"of its stamp":    {schema.Item{schema.RF: n("1700000081000"), schema.InStep: n("1700000081000")}, true},
		"of another one":  {schema.Item{schema.RF: n("1700000081001"), schema.InStep: n("1700000081000")}, false},
		"not a number":    {schema.Item{schema.InStep: schema.S("?")}, false},
		"of no instant":   {schema.Item{schema.RF: n("0"), schema.InStep: n("0")}, false},
	} {
		if img, err := schema.DecodeBucket(edited(t, c.changes)); err != nil || img.InStep != c.want {
			t.Errorf("%s: %v, %v", name, img, err)
		}
	}
	c := first()[stateKey]
	c.InStep = true
	if img, err := schema.DecodeBucket(schema.EncodeNewBucket("ns1", false, c)); err != nil || !img.InStep {
		t.Errorf("a new one: %v, %v", img, err)
	}
}

// A schedule of a new bucket is written as the peer writes it, but for the default: ours says
// of each limit when it varies.
func TestANewScheduleIsWrittenAsThePeerWritesIt(t *testing.T) {
	t.Parallel()
	c := first()[stateKey]
	c.Limits[0].Varies, c.ValidUntil = schedule("* 9-17 * * MON-FRI x0.5", "Europe/Berlin"), 1_700_035_200_000
	peers := edited(t, schema.Item{"b_rpm_sched": schema.S("1h9-17w1-5s500"), schema.SchedTZ: schema.S("Europe/Berlin"), schema.ValidUntil: n("1700035200000")})
	ours := schema.EncodeNewBucket("ns1", false, c)
	for _, attr := range []string{schema.Created, schema.OpenHour, schema.Acquires} { // the peer ignores them
		delete(ours, attr)
	}
	if diff := cmp.Diff(wire(peers), wire(ours)); diff != "" {
		t.Errorf("(-peer +ours):\n%s", diff)
	}
	img, err := schema.DecodeBucket(peers)
	if err != nil || store.ValidUntil(img.RefilledAt, img.Limits, func(s *store.LimitState) (store.Params, int64) { return *s.Params, s.Opened() }) != img.ValidUntil {
		t.Error(img, err)
	}
}
