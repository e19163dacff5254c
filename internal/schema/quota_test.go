package schema_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// peersQuotas is the peer's bucket of a rate, a quota that renews by the item's default, and a
// session. Its parameter schedule is left out.
func peersQuotas(tb testing.TB, changes schema.Item) schema.Item {
	tb.Helper()
	item := peerItem(tb, "ns1/BUCKET#user-2#q#0 #STATE")
	for _, attr := range []string{schema.Sched, "b_rpd_sched", "b_sess_sched"} {
		delete(item, attr)
	}
	maps.Copy(item, changes)
	for attr, v := range changes {
		if v == nil {
			delete(item, attr)
		}
	}
	return item
}

// withoutSession makes the peer's session a quota by the item's default.
var withoutSession = schema.Item{"b_sess_rsa": nil, "b_sess_ws": nil, "b_sess_wa": nil, "b_sess_rsched": nil}

// A limit renews as it says itself, else as the item says; "-" is never. What this version
// cannot evaluate is an unsupported feature, never another calendar.
func TestPeersQuotas(t *testing.T) {
	t.Parallel()
	day, month := renewal("day", "UTC"), renewal("month", "UTC")
	for name, c := range map[string]struct {
		changes   schema.Item
		rpd, sess *store.Renewal
		foreign   bool
	}{
		"as it is: a session":     {nil, day, renewal("session 5h", ""), false},
		"a session of shards":     {schema.Item{schema.ShardCount: n("2")}, day, renewal("session 5h", ""), false},
		"one not applied yet":     {schema.Item{"b_sess_ws": n("1800000000000")}, day, renewal("session 5h", ""), false},
		"the default holds":       {withoutSession, day, day, false},
		"an override":             {with(withoutSession, schema.Item{"b_sess_rsched": schema.S("1m0h0D1")}), day, month, false},
		"no default, own ones":    {with(withoutSession, schema.Item{schema.RSched: nil, "b_rpd_rsched": schema.S("1m0h0"), "b_sess_rsched": schema.S("1m0h0D1")}), day, month, false},
		"no zone is UTC":          {with(withoutSession, schema.Item{schema.SchedTZ: nil}), day, day, false},
		"another zone":            {with(withoutSession, schema.Item{schema.SchedTZ: schema.S("Europe/Berlin")}), renewal("day", "Europe/Berlin"), renewal("day", "Europe/Berlin"), false},
		"an unknown zone":         {with(withoutSession, schema.Item{schema.SchedTZ: schema.S("Mars/Olympus")}), nil, nil, true},
		"an unknown encoding":     {with(withoutSession, schema.Item{schema.RSched: schema.S("2m0h0")}), nil, nil, true},
		"an unknown override":     {with(withoutSession, schema.Item{"b_sess_rsched": schema.S("2m0h0")}), day, nil, true},
		"a quota that opts out":   {with(withoutSession, schema.Item{"b_sess_rsched": schema.S("-")}), day, nil, false},
		"neither rate nor period": {with(withoutSession, schema.Item{schema.RSched: nil}), nil, nil, false},
		"a rate by the default":   {with(withoutSession, schema.Item{"b_rpm_rsched": nil}), day, day, true},
		"a session beside it":     {with(withoutSession, schema.Item{"b_sess_rsa": n("18000")}), day, nil, true},
	} {
		img, err := schema.DecodeBucket(peersQuotas(t, c.changes))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rpd, _ := img.Limit("rpd")
		rpm, _ := img.Limit("rpm")
		sess, _ := img.Limit("sess")
		if rpd.Renewal != c.rpd || sess.Renewal != c.sess || rpm.Renewal != nil || img.IsEvaluable() == c.foreign {
			t.Errorf("%s: rpd renews each %v, sess each %v, rpm each %v, features %v", name, rpd.Renewal, sess.Renewal, rpm.Renewal, img.Features)
		}
		if !img.HasValidUntil || img.ValidUntil != 1_700_006_400_000 {
			t.Errorf("%s: valid until %d", name, img.ValidUntil)
		}
	}
}

// with is the union of changes.
func with(a, b schema.Item) schema.Item {
	u := maps.Clone(a)
	maps.Copy(u, b)
	return u
}

// A grant for as many shards as the item has is no other one than the share. What a rate has of a
// grant or a session, from the time when it was a quota, means nothing.
func TestGrantsAndTopUps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes schema.Item
		limit   string
		grant   int
		topUp   int64
	}{
		"as wide as the bucket":   {nil, "rpd", 0, 0},
		"none is the bucket's":    {schema.Item{"b_rpd_gc": nil}, "rpd", 0, 0},
		"narrower":                {schema.Item{schema.ShardCount: n("4")}, "rpd", 1, 0},
		"wider, and no count":     {schema.Item{schema.ShardCount: nil, "b_rpd_gc": n("2")}, "rpd", 2, 0},
		"topped up":               {schema.Item{"b_rpd_tu": n("5000")}, "rpd", 0, 5000},
		"topped up and narrower":  {schema.Item{schema.ShardCount: n("2"), "b_rpd_tu": n("5000")}, "rpd", 1, 5000},
		"a rate":                  {schema.Item{"b_rpm_gc": n("4"), "b_rpm_tu": n("5000"), "b_rpm_ws": n("5")}, "rpm", 0, 0},
		"a calendar":              {schema.Item{"b_rpd_ws": n("5")}, "rpd", 0, 0},
		"a grant among no shards": {schema.Item{"b_rpd_gc": n("-1")}, "rpd", 0, 0},
	} {
		img, err := schema.DecodeBucket(peersQuotas(t, with(withoutSession, c.changes)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got store.Extra
		if s, ok := img.Limit(c.limit); ok && s.Extra != nil {
			got = *s.Extra
		}
		if want := (store.Extra{Granted: store.Granted{Shards: c.grant, TopUp: c.topUp}}); got != want {
			t.Errorf("%s: it has %+v, want %+v", name, got, want)
		}
	}
}

// The peer's configuration of a quota and of a schedule, and ours, are written alike.
func TestPeersQuotaConfig(t *testing.T) {
	t.Parallel()
	peers := peerItem(t, "ns1/RESOURCE#q #CONFIG")
	got, err := schema.DecodeConfig(peers)
	if err != nil {
		t.Fatal(err)
	}
	rpd, rpm := limiter.Quota("rpd", 100, renewal("day", "UTC")), limiter.PerMinute("rpm", 5)
	varied := rpm
	varied.Varies = schedule("* 9-17 * * mon-fri x0.5", "UTC")
	sess := limiter.Quota("sess", 10, renewal("session 5h", ""))
	want := &store.Config{Limits: []store.Limit{rpd, varied, sess}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	ours := schema.EncodeConfig("ns1", store.ConfigKey{Resource: "q"}, &store.Config{Limits: []store.Limit{rpd, varied, sess}})
	if diff := cmp.Diff(wire(peers), wire(ours)); diff != "" {
		t.Errorf("(-peer +ours):\n%s", diff)
	}
	delete(peers, "w_sess_rsa")
	if _, err := schema.DecodeConfig(peers); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a session without a length: %v", err)
	}
	for attr := range peers {
		if strings.HasPrefix(attr, "w_") {
			delete(peers, attr)
		}
	}
	for attr, c := range map[string]struct {
		value string
		want  store.Features
	}{
		schema.SchedTZ: {"Mars/Olympus", store.Quota | store.Scheduled}, "l_rpd_rsched": {"2m0h0", store.Quota}, "l_rpm_sched": {"2h9s500", store.Scheduled},
		"l_rpd_sched": {"1h9a500", store.Scheduled}, // a quota with a rate
	} {
		strange := with(peers, schema.Item{attr: schema.S(c.value)})
		if got, err := schema.DecodeConfig(strange); err != nil || got.Features != c.want {
			t.Errorf("%s is %s: features %v, %v", attr, c.value, got.Features, err)
		}
	}
}

// The peer's configuration of quotas with schedules, and ours, are written alike.
func TestPeersConfigOfQuotasThatVary(t *testing.T) {
	t.Parallel()
	peers := with(peerItem(t, "ns1/RESOURCE#q #CONFIG"), schema.Item{"l_rpd_sched": schema.S("1w6-7s500"), "w_sess_sched": schema.S("1h0-5c5")})
	got, err := schema.DecodeConfig(peers)
	if err != nil {
		t.Fatal(err)
	}
	rpd, sess := got.Limits[0], got.Limits[2]
	if !got.IsEvaluable() || rpd.Varies != schedule("* * * * 6-7 x0.5", "UTC") || sess.Varies != schedule("* 0-5 * * * capacity=5", "UTC") {
		t.Errorf("it is %+v", got)
	}
	if err := store.ValidateLimits(got.Limits); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(wire(peers), wire(schema.EncodeConfig("ns1", store.ConfigKey{Resource: "q"}, got))); diff != "" {
		t.Errorf("(-peer +ours):\n%s", diff)
	}
}

// A quota of a new bucket is written as the peer writes it, but for the default: ours says of each
// limit when it renews.
func TestANewQuotaIsWrittenAsThePeerWritesIt(t *testing.T) {
	t.Parallel()
	c := &store.Create{
		Bucket: store.Bucket{Entity: "user-2", Resource: "q"}, Now: 1_700_000_081_000, ShardCount: 1, ExpiresAt: 1_700_604_881,
		Limits: []store.NewLimit{{
			NamedParams: store.NamedParams{Limit: "rpd", Params: limiter.Quota("rpd", 100, renewal("day", "UTC")).Params()}, Tokens: 99_000, Consumed: 1000,
		}},
		ValidUntil: 1_700_006_400_000,
		Writes:     store.NewLimit{NamedParams: store.NamedParams{Limit: schema.WCU, Params: store.Params{Capacity: 1e6, Amount: 1e6, Period: 1000}}, Tokens: 1e6},
	}
	peers := peersQuotas(t, schema.Item{schema.RSched: nil, "b_rpd_rsched": schema.S("1m0h0")})
	for _, limit := range []string{"rpm", "sess"} {
		for _, field := range schema.LimitFields {
			delete(peers, schema.LimitAttr(limit, field))
		}
	}
	ours := schema.EncodeNewBucket("ns1", false, c)
	for _, attr := range []string{schema.Created, schema.OpenHour, schema.Acquires} { // the peer ignores them
		delete(ours, attr)
	}
	if diff := cmp.Diff(wire(peers), wire(ours)); diff != "" {
		t.Errorf("(-peer +ours):\n%s", diff)
	}
}
