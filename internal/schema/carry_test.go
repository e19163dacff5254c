package schema_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// What a quota carries is one attribute. A code that is none makes the item one that this
// version cannot evaluate. On another limit the attribute is left from a quota, and means
// nothing.
func TestCarry(t *testing.T) {
	t.Parallel()
	day, err := limiter.ParseRenewal("day", "")
	if err != nil {
		t.Fatal(err)
	}
	quota, rate := limiter.Quota("rpd", 5, day, limiter.Rollover(7), limiter.CarryDebt()), limiter.PerDay("rpd", 5)
	for code, want := range map[string]store.Carry{
		"": {}, "d": {Debt: true}, "7": {Rollover: 7}, "7d": {Rollover: 7, Debt: true},
		"07": {}, "-7": {}, "0": {}, "dd": {}, "d7": {}, "7 d": {}, "x": {}, "1000000000000001": {},
	} {
		valid := code == "" || want != store.Carry{}
		for _, l := range []store.Limit{quota, rate} {
			is := want
			if l.Renews == nil {
				is = store.Carry{}
			}
			config := schema.EncodeConfig("ns", store.ConfigKey{}, &store.Config{Limits: []store.Limit{l}})
			config["l_rpd_co"] = schema.S(code)
			c, err := schema.DecodeConfig(config)
			if evaluable := valid || l.Renews == nil; err != nil || (c.Features == 0) != evaluable || evaluable && c.Limits[0].Carries != is {
				t.Errorf("%q of a level is %+v, %v", code, c, err)
			}
			create := &store.Create{Bucket: store.Bucket{Entity: "e", Resource: "r"}, Now: 1, ShardCount: 1}
			create.Limits = []store.NewLimit{{NamedParams: store.NamedParams{Limit: "rpd", Params: l.Params()}}}
			item := schema.EncodeNewBucket("ns", false, create)
			item["b_rpd_co"] = schema.S(code)
			img, err := schema.DecodeBucket(item)
			is.Rollover *= store.Milli
			if evaluable := valid || l.Renews == nil; err != nil || img.IsEvaluable() != evaluable || evaluable && img.Limits[0].Carries != is {
				t.Errorf("%q of a bucket is %+v, %v", code, img, err)
			}
		}
	}
	if code := schema.EncodeCarry(quota.Carries); code != "7d" {
		t.Errorf("the code is %q", code)
	}
}
