package estimate_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	"github.com/zeroae/zae-limiter-go/store"
)

func prices(t *testing.T) *estimate.Prices {
	t.Helper()
	p, err := estimate.BuiltIn("us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func near(got, want float64) bool { return math.Abs(got-want) < 1e-9*math.Max(1, math.Abs(want)) }

// The lines sum to the bill, and the bill is units times prices.
func TestABillIsUnitsTimesPrices(t *testing.T) {
	t.Parallel()
	e, err := estimate.New(estimate.Load{
		Rate: 1000, Processes: 4, Cascade: 0.5, Refused: 0.1, Adjusted: 0.2, Aggregator: true, NewBuckets: 1, Limits: 14,
	})
	if err != nil {
		t.Fatal(err)
	}
	p := prices(t)
	b := e.Bill(p)
	sum := 0.0
	for _, l := range b.Lines {
		sum += l.Dollars
	}
	if !near(sum, b.OnDemand) || len(b.Lines) != len(e.Parts)+4 {
		t.Errorf("%d lines sum to %v, the bill is %v", len(b.Lines), sum, b.OnDemand)
	}
	calls := e.Invocations * 730 * 3600
	rest := e.StoredBytes/(1<<30)*0.25 + calls*(0.20/1e6+0.1*0.25*0.0000133334+500.0/(1<<30)*0.50)
	if want := (e.Sum.Writes*0.625+e.Sum.Reads*0.125)*730*3600/1e6 + rest; !near(b.OnDemand, want) {
		t.Errorf("on demand %v, want %v", b.OnDemand, want)
	}
	if want := (e.Sum.Writes*0.00065+e.Sum.Reads*0.00013)*730/0.7 + rest; !near(b.Provisioned, want) {
		t.Errorf("provisioned %v, want %v", b.Provisioned, want)
	}
	// At the break-even, provisioned capacity costs as much as on demand.
	if even := (b.Provisioned-rest)*estimate.Utilization/b.BreakEven + rest; !near(even, b.OnDemand) {
		t.Errorf("at a use of %v provisioned costs %v, on demand %v", b.BreakEven, even, b.OnDemand)
	}
	if text := strings.Join(b.Advice, "\n"); !strings.Contains(text, "1381 bytes") || !strings.Contains(text, "provisioned capacity is cheaper") {
		t.Errorf("advice:\n%s", text)
	}
}

func TestPricesThatAreIncompleteAreRefused(t *testing.T) {
	t.Parallel()
	row := func(fields string) string {
		var text strings.Builder
		text.WriteString("regions: {r: {")
		for _, name := range []string{
			"read_units_million", "write_capacity_hour", "read_capacity_hour", "storage_gb_month",
			"function_calls_million", "function_gb_second", "log_gb",
		} {
			text.WriteString(name + ": {price: 1, date: 2026-01-02, source: page}, ")
		}
		return text.String() + "write_units_million: {" + fields + "}}}"
	}
	if _, err := estimate.ParsePrices("f", []byte(row("price: 1, date: 2026-01-02, source: page")), "r"); err != nil {
		t.Fatal(err)
	}
	for field, text := range map[string]string{
		"price of write_units_million":  row("date: 2026-01-02, source: page"),
		"price of read_units_million":   strings.Replace(row("price: 1, date: 2026-01-02, source: page"), "read_units_million: {price: 1", "read_units_million: {price: .inf", 1),
		"date of write_units_million":   row("price: 1, date: then, source: page"),
		"source of write_units_million": row("price: 1, date: 2026-01-02"),
		"region":                        "regions: {s: {}}",
	} {
		_, err := estimate.ParsePrices("f", []byte(text), "r")
		if wrong, ok := errors.AsType[*store.ValidationError](err); !ok || wrong.Field != field {
			t.Errorf("%s: error %v", field, err)
		}
	}
	for text, want := range map[string]string{
		"": "f has no regions: give", "null": "f has no regions: give", "regions: {}": "f has no regions: give", "regions: {s: }": "the regions of f are s: give",
		"regions: {r: {writes: 1}}": "read f: give regions and their prices", "x: 1": "read f: give regions", "[1]": "read f: give regions", "%": "read f: give regions",
	} {
		if _, err := estimate.ParsePrices("f", []byte(text), "r"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestWrongLoadsAreNamed(t *testing.T) {
	t.Parallel()
	function := func(f estimate.Function) estimate.Load { return estimate.Load{Rate: 1, Function: f} }
	for field, loads := range map[string][]estimate.Load{
		"rate":          {{}, {Rate: -1}, {Rate: math.NaN()}, {Rate: math.Inf(1)}},
		"hot":           {{Rate: 1, Hot: -0.1}, {Rate: 1, Hot: 1.1}},
		"cascade":       {{Rate: 1, Cascade: 1.1}},
		"refused":       {{Rate: 1, Refused: -1}},
		"refused of":    {{Rate: 1, Refused: 0.5, RefusedOf: 0.2}},
		"used":          {{Rate: 1, Used: math.NaN()}},
		"adjusted":      {{Rate: 1, Adjusted: 2}},
		"processes":     {{Rate: 1, Processes: -1}},
		"buckets":       {{Rate: 1, Buckets: -1}},
		"parents":       {{Rate: 1, Parents: -1}},
		"limits":        {{Rate: 1, Limits: 33}, {Rate: 1, Limits: -1}, {Rate: 1, Limits: math.MaxInt}, {Rate: 1, Limits: math.MinInt}},
		"item bytes":    {{Rate: 1, ItemBytes: -1}, {Rate: 1, ItemBytes: 409_601}},
		"new buckets":   {{Rate: 1, NewBuckets: 2}, {Rate: 1, NewBuckets: -1}},
		"latency":       {{Rate: 1, Latency: -time.Second}},
		"config TTL":    {{Rate: 1, ConfigTTL: -time.Second}},
		"retention":     {{Rate: 1, Retention: -time.Second}},
		"batch records": {function(estimate.Function{BatchRecords: -1}), function(estimate.Function{BatchRecords: 10_001})},
		"batch window":  {function(estimate.Function{BatchWindow: -1}), function(estimate.Function{BatchWindow: 301 * time.Second})},
		"memory":        {function(estimate.Function{Memory: 127}), function(estimate.Function{Memory: 10_241})},
		"duration":      {function(estimate.Function{Duration: -1}), function(estimate.Function{Duration: 16 * time.Minute})},
		"log bytes":     {function(estimate.Function{LogBytes: -1})},
	} {
		for i, l := range loads {
			_, err := estimate.New(l)
			if wrong, ok := errors.AsType[*store.ValidationError](err); !ok || wrong.Field != field {
				t.Errorf("%s, load %d: error %v", field, i, err)
			}
		}
	}
}
