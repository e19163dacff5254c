package schema_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/document"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

func TestConfigsAreWrittenAsThePeerWritesThem(t *testing.T) {
	t.Parallel()
	rpm, tpm := limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 1000)
	for _, c := range []struct {
		key    store.ConfigKey
		config store.Config
	}{
		{store.ConfigKey{}, store.Config{Limits: []store.Limit{rpm}, OnUnavailable: store.Block}},
		{store.ConfigKey{Resource: "gpt-4"}, store.Config{Limits: []store.Limit{rpm, tpm}}},
		{store.ConfigKey{Entity: "user-1", Resource: "gpt-4"}, store.Config{Limits: []store.Limit{limiter.PerMinute("rpm", 20)}}},
	} {
		peer := peerItem(t, schema.ConfigKey("ns1", c.key).String())
		if diff := cmp.Diff(wire(peer), wire(schema.EncodeConfig("ns1", c.key, &c.config))); diff != "" {
			t.Errorf("%+v (-peer +ours):\n%s", c.key, diff)
		}
		got, err := schema.DecodeConfig(peer)
		if err != nil {
			t.Errorf("%+v: %v", c.key, err)
		}
		if diff := cmp.Diff(&c.config, got); diff != "" {
			t.Errorf("%+v decoded (-want +got):\n%s", c.key, diff)
		}
	}
}

func configLaw(t *rapid.T) {
	k := configKeys(t)
	c := configs(t, k)
	item := schema.EncodeConfig(namespaces.Draw(t, "namespace"), k, c)
	got, err := schema.DecodeConfig(item)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, got); diff != "" {
		t.Fatalf("decoded (-want +got):\n%s", diff)
	}
	if want := c.Disabled.Policy != store.Inherit || c.Cascade != store.Inherit; schema.HasPolicy(item) != want {
		t.Fatalf("HasPolicy is %v", !want)
	}
}

func TestConfigRoundTrip(t *testing.T) { law(t, configLaw) }

func FuzzConfigRoundTrip(f *testing.F) { fuzz(f, configLaw) }

// inMode is a level whose limit is in a mode.
func inMode(m store.Mode, percent int) store.Config {
	l := limiter.PerMinute("rpm", 10)
	l.Mode, l.Percent = m, percent
	return store.Config{Limits: []store.Limit{l}}
}

// The attributes of limits in a mode, as every version writes them: what a peer reads is a soft limit.
func TestTheAttributesOfAMode(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]store.Config{
		"shadow": inMode(store.Shadow, 0), "shadow 80%": inMode(store.Shadow, 80), "off": inMode(store.Off, 0), "off 1%": inMode(store.Off, 1), "": inMode(store.Enforce, 0),
	} {
		item := schema.EncodeConfig("ns1", store.ConfigKey{Resource: "r"}, &c)
		want := schema.Item{"l_rpm_soft": schema.Bool(true), "l_rpm_mode": schema.S(text)}
		if text == "" {
			want = schema.Item{}
		}
		got := schema.Item{}
		for _, attr := range []string{"l_rpm_soft", "l_rpm_mode"} {
			if v, ok := item[attr]; ok {
				got[attr] = v
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(document.NoSerde{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestDecodeConfig(t *testing.T) {
	t.Parallel()
	rpm, soft := limiter.PerMinute("rpm", 10), limiter.PerMinute("rpm", 10, limiter.Soft())
	for name, c := range map[string]struct {
		add  schema.Item
		want store.Config
	}{
		"unknown attributes":    {schema.Item{"x": n("?"), "l_": n("?"), "l_x": n("?"), "l_1_cp": n("?"), "audit_retention_days": n("7")}, store.Config{}},
		"disabled":              {schema.Item{schema.Disabled: schema.Bool(true)}, store.Config{Disabled: store.Switch{Policy: store.Yes}}},
		"enforced":              {schema.Item{schema.Disabled: schema.Bool(false)}, store.Config{Disabled: store.Switch{Policy: store.No}}},
		"strange switch":        {schema.Item{schema.Disabled: schema.S("maybe")}, store.Config{Disabled: store.Switch{Policy: store.No}}},
		"bypassed":              {schema.Item{schema.Disabled: schema.S("bypass")}, store.Config{Disabled: store.Switch{Policy: store.Bypass}}},
		"bypassed for a while":  {schema.Item{schema.Disabled: schema.S("bypass"), schema.DisabledUntil: schema.N(5)}, store.Config{Disabled: store.Switch{Policy: store.Bypass, Until: 5}}},
		"cascade":               {schema.Item{schema.Cascade: schema.Bool(true)}, store.Config{Cascade: store.Yes}},
		"schedule":              {schema.Item{"l_rpm_sched": schema.S("2s500")}, store.Config{Features: store.Scheduled}},
		"reset schedule":        {schema.Item{"l_rpm_rsched": schema.S("1m0h0")}, store.Config{Features: store.Quota}},
		"soft":                  {schema.Item{"l_rpm_soft": schema.Bool(true)}, store.Config{Limits: []store.Limit{soft}}},
		"not soft":              {schema.Item{"l_rpm_soft": schema.Bool(false)}, store.Config{}},
		"soft and scheduled":    {schema.Item{"l_rpm_soft": schema.Bool(true), "l_rpm_sched": schema.S("2s500")}, store.Config{Limits: []store.Limit{soft}, Features: store.Scheduled}},
		"soft and reset":        {schema.Item{"l_rpm_soft": schema.Bool(true), "l_rpm_rsched": schema.S("1m0h0")}, store.Config{Limits: []store.Limit{soft}, Features: store.Quota}},
		"in shadow":             {schema.Item{"l_rpm_soft": schema.Bool(true), "l_rpm_mode": schema.S("shadow")}, inMode(store.Shadow, 0)},
		"in shadow for some":    {schema.Item{"l_rpm_soft": schema.Bool(true), "l_rpm_mode": schema.S("shadow 80%")}, inMode(store.Shadow, 80)},
		"off":                   {schema.Item{"l_rpm_soft": schema.Bool(true), "l_rpm_mode": schema.S("off")}, inMode(store.Off, 0)},
		"off for some":          {schema.Item{"l_rpm_soft": schema.Bool(true), "l_rpm_mode": schema.S("off 1%")}, inMode(store.Off, 1)},
		"in an unknown mode":    {schema.Item{"l_rpm_soft": schema.Bool(true), "l_rpm_mode": schema.S("shadow 101%")}, store.Config{Limits: []store.Limit{soft}}},
		"hard after a mode":     {schema.Item{"l_rpm_soft": schema.Bool(false), "l_rpm_mode": schema.S("shadow")}, store.Config{}},
		"field without a limit": {schema.Item{"l_tpm_ra": n("10")}, store.Config{}},
		"allow":                 {schema.Item{schema.OnUnavailable: schema.S("allow")}, store.Config{OnUnavailable: store.Allow}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := store.ConfigKey{Resource: "r"}
			item := schema.EncodeConfig("ns1", k, &store.Config{Limits: []store.Limit{rpm}})
			maps.Copy(item, c.add)
			got, err := schema.DecodeConfig(item)
			if err != nil {
				t.Fatal(err)
			}
			if c.want.Limits == nil {
				c.want.Limits = []store.Limit{rpm}
			}
			if diff := cmp.Diff(&c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Share is written as block beside an attribute of ours. The value that a peer has written since counts.
func TestShareOnTheWire(t *testing.T) {
	t.Parallel()
	for _, on := range []store.OnUnavailable{"", store.Block, store.Allow, store.Share} {
		item := schema.EncodeConfig("ns1", store.ConfigKey{}, &store.Config{OnUnavailable: on})
		if got, err := schema.DecodeConfig(item); err != nil || got.OnUnavailable != on {
			t.Errorf("%q is read as %+v, %v", on, got, err)
		}
		for attr := range schema.EncodeOutage(on) {
			if !schema.IsOutageAttr(attr) {
				t.Errorf("%s of %q is overlooked", attr, on)
			}
		}
	}
	shared := schema.EncodeConfig("ns1", store.ConfigKey{}, &store.Config{OnUnavailable: store.Share})
	if diff := cmp.Diff(wire(schema.Item{"on_unavailable": schema.S("block"), "outage_share": schema.Bool(true)}), wire(schema.EncodeOutage(store.Share))); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		attr string
		v    types.AttributeValue
		want store.OnUnavailable
	}{
		{schema.OnUnavailable, schema.S("allow"), store.Allow},
		{schema.OutageShare, schema.Bool(false), store.Block},
		{schema.OutageShare, schema.S("true"), store.Block},
	} {
		item := maps.Clone(shared)
		item[c.attr] = c.v
		if got, err := schema.DecodeConfig(item); err != nil || got.OnUnavailable != c.want {
			t.Errorf("with %s = %v: got %+v, %v", c.attr, c.v, got, err)
		}
	}
	delete(shared, schema.OnUnavailable)
	if got, err := schema.DecodeConfig(shared); err != nil || got.OnUnavailable != "" {
		t.Errorf("without the word of peers: got %+v, %v", got, err)
	}
}

func TestDamagedConfigsAreNamed(t *testing.T) {
	t.Parallel()
	for attr, v := range map[string]types.AttributeValue{
		"l_rpm_cp":           n("0"),
		"l_rpm_ra":           n("-1"),
		"l_rpm_rp":           n("1000000001"),
		"l_tpm_cp":           schema.S("10"),
		"w_rpm_cp":           n("10"),
		schema.OnUnavailable: schema.S("shrug"),
	} {
		item := schema.EncodeConfig("ns1", store.ConfigKey{}, &store.Config{Limits: []store.Limit{limiter.PerMinute("rpm", 10)}})
		item[attr] = v
		_, err := schema.DecodeConfig(item)
		corrupt := (*store.CorruptError)(nil)
		if !errors.As(err, &corrupt) || corrupt.Attr != attr || corrupt.Key != "ns1/SYSTEM# #CONFIG" {
			t.Errorf("%s = %v: got error %v", attr, v, err)
		}
	}
	item := schema.EncodeConfig("ns1", store.ConfigKey{}, &store.Config{Limits: []store.Limit{limiter.PerMinute("rpm", 10)}})
	delete(item, "l_rpm_rp")
	if _, err := schema.DecodeConfig(item); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("without a period: got error %v", err)
	}
}

func TestWhatOutlivesLimits(t *testing.T) {
	t.Parallel()
	for attr, want := range map[string]bool{
		schema.Disabled: true, schema.Cascade: true, schema.AuditRetentionDays: true, "of the future": true,
		schema.OnUnavailable: false, schema.SchedTZ: false, "l_rpm_cp": false, "w_s_rsa": false, schema.GSI3PK: false,
	} {
		item := schema.EncodeConfig("ns1", store.ConfigKey{Entity: "e", Resource: "r"}, &store.Config{})
		item[attr] = schema.Bool(true)
		if got := schema.HasPolicy(item); got != want {
			t.Errorf("%s: got %v", attr, got)
		}
	}
}
