package limitarg_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
)

func TestParseAndDisplay(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in      string
		want    limiter.Limit
		format  string
		display string
	}{
		{"tpm:10000", limiter.PerMinute("tpm", 10000), "tpm:10000/min", "tpm: 10,000/min"},
		{"tpm:10000:15000", limiter.PerMinute("tpm", 10000, limiter.Burst(15000)), "tpm:10000/min:15000", "tpm: 10,000/min (burst: 15,000)"},
		{"tpm:1000000:500", limiter.PerMinute("tpm", 1000000, limiter.Burst(500)), "tpm:1000000/min:500", "tpm: 1,000,000/min (burst: 500)"},
		{"rps:50/sec", limiter.PerSecond("rps", 50), "rps:50/sec", "rps: 50/sec"},
		{"tph:100000/hour", limiter.PerHour("tph", 100000), "tph:100000/hour", "tph: 100,000/hour"},
		{"rpd:1000000/day", limiter.PerDay("rpd", 1000000), "rpd:1000000/day", "rpd: 1,000,000/day"},
		{"tpm:10000/min", limiter.PerMinute("tpm", 10000), "tpm:10000/min", "tpm: 10,000/min"},
		{"x:10/5min", limiter.Custom("x", 10, 5*time.Minute), "x:10/5min", "x: 10/5min"},
		{"x:10/5min:12", limiter.Custom("x", 10, 5*time.Minute, limiter.Burst(12)), "x:10/5min:12", "x: 10/5min (burst: 12)"},
		{"x:10/minute", limiter.PerMinute("x", 10), "x:10/min", "x: 10/min"},
		{"x:10/s", limiter.PerSecond("x", 10), "x:10/sec", "x: 10/sec"},
		{"x:10/1h:20", limiter.PerHour("x", 10, limiter.Burst(20)), "x:10/hour:20", "x: 10/hour (burst: 20)"},
		{"x:10/2days", limiter.Custom("x", 10, 48*time.Hour), "x:10/2day", "x: 10/2day"},
		{"x:10/15m", limiter.Custom("x", 10, 15*time.Minute), "x:10/15min", "x: 10/15min"},
		{"x:10/60sec", limiter.PerMinute("x", 10), "x:10/min", "x: 10/min"},
		{"x:10/120sec", limiter.Custom("x", 10, 2*time.Minute), "x:10/2min", "x: 10/2min"},
		{"x:10/90sec", limiter.Custom("x", 10, 90*time.Second), "x:10/90sec", "x: 10/90sec"},
		{"x:10/60min", limiter.PerHour("x", 10), "x:10/hour", "x: 10/hour"},
		{"x:10/24hour", limiter.PerDay("x", 10), "x:10/day", "x: 10/day"},
		{"x:10/1day:10", limiter.PerDay("x", 10), "x:10/day", "x: 10/day"},
		{"a-b.c_d:1", limiter.PerMinute("a-b.c_d", 1), "a-b.c_d:1/min", "a-b.c_d: 1/min"},
		{"x:1000000000000000/1000000000sec", limiter.Custom("x", limiter.MaxTokens, limiter.MaxPeriod), "x:1000000000000000/1000000000sec", "x: 1,000,000,000,000,000/1000000000sec"},
	}
	for _, tt := range tests {
		got, err := limitarg.Parse(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", tt.in, got, err, tt.want)
		}
		if s := limitarg.Format(tt.want); s != tt.format {
			t.Errorf("Format(%+v) = %q, want %q", tt.want, s, tt.format)
		}
		if s := limitarg.Display(tt.want); s != tt.display {
			t.Errorf("Display(%+v) = %q, want %q", tt.want, s, tt.display)
		}
	}
}

// renewal is one that the test knows to be valid.
func renewal(t *testing.T, words, zone string) *limiter.Renewal {
	t.Helper()
	r, err := limiter.ParseRenewal(words, zone)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	quota := func(tokens int64, words, zone string) limiter.Limit {
		return limiter.Quota("rpd", tokens, renewal(t, words, zone))
	}
	for _, tt := range []struct {
		in      string
		want    limiter.Limit
		format  string
		display string
	}{
		{"rpd:1000@day", quota(1000, "day", ""), "rpd:1000@day", "rpd: 1,000@day"},
		{"rpd:1000@0 0 * * *@UTC", quota(1000, "day", "UTC"), "rpd:1000@day", "rpd: 1,000@day"},
		{"rpd:1000@day@", quota(1000, "day", "UTC"), "rpd:1000@day", "rpd: 1,000@day"},
		{"rpd:5000000@Month from day 15", quota(5_000_000, "month from day 15", ""), "rpd:5000000@month from day 15", "rpd: 5,000,000@month from day 15"},
		{"rpd:7@day at 06:30@Europe/Berlin", quota(7, "day at 06:30", "Europe/Berlin"), "rpd:7@day at 06:30@Europe/Berlin", "rpd: 7@day at 06:30 (Europe/Berlin)"},
		{"rpd:7@0 9 * * mon,tue", quota(7, "0 9 * * 1,2", ""), "rpd:7@0 9 * * 1,2", "rpd: 7@0 9 * * 1,2"},
		{"rpd:7@0/15 * * * *; day at 06:30", quota(7, "0/15 * * * *; day at 06:30", ""), "rpd:7@0/15 * * * *; day at 06:30", "rpd: 7@0/15 * * * *; day at 06:30"},
		{"rpd:7@month since 2026-01-31T10:00:00Z", quota(7, "month since 2026-01-31T10:00:00Z", ""), "rpd:7@month since 2026-01-31T10:00:00Z", "rpd: 7@month since 2026-01-31T10:00:00Z"},
	} {
		got, err := limitarg.Parse(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", tt.in, got, err, tt.want)
		}
		if s := limitarg.Format(tt.want); s != tt.format {
			t.Errorf("Format(%+v) = %q, want %q", tt.want, s, tt.format)
		}
		if again, err := limitarg.Parse(tt.format); err != nil || again != tt.want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", tt.format, again, err, tt.want)
		}
		if s := limitarg.Display(tt.want); s != tt.display {
			t.Errorf("Display(%+v) = %q, want %q", tt.want, s, tt.display)
		}
	}
	want := limitarg.Parameters{Capacity: 7, Renews: "day at 06:30", Zone: "Europe/Berlin"}
	if got := limitarg.ParametersOf(quota(7, "30 6 * * *", "Europe/Berlin")); got != want {
		t.Errorf("parameters %+v, want %+v", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, names string }{
		{"", "two or three parts"},
		{"invalid", "two or three parts"},
		{"rpm:1:2:3", "two or three parts"},
		{"rpm:1/min:2:", "two or three parts"},
		{":100", "limit name"},
		{"1x:100", "limit name"},
		{"wcu:100", "reserved"},
		{"rpm\n:100", "limit name"},
		{"tpm:abc", "rate"},
		{"rpm:", "rate"},
		{"rpm:/min", "rate"},
		{"rpm:0", "rate"},
		{"rpm:-1", "rate"},
		{"rpm:+1", "rate"},
		{"rpm: 1", "rate"},
		{"rpm:1_000", "rate"},
		{"rpm:1,000", "rate"},
		{"rpm:1.5", "rate"},
		{"rpm:1e3", "rate"},
		{"rpm:٣", "rate"},
		{"rpm:1000000000000001", "rate"},
		{"rpm:9223372036854775808", "rate"},
		{"x:1/week", "unknown period"},
		{"x:1/", "unknown period"},
		{"x:1/5", "unknown period"},
		{"x:1/Min", "unknown period"},
		{"x:1/mins", "unknown period"},
		{"x:1/5 min", "unknown period"},
		{"x:1/min5", "unknown period"},
		{"x:1/ms", "unknown period"},
		{"x:1/min/min", "period"},
		{"x:1/0min", "period"},
		{"x:1/-1min", "period"},
		{"x:1/1.5min", "period"},
		{"x:1/1000000001sec", "period"},
		{"x:1/11575day", "period"},
		{"x:1/9223372036854775807day", "period"},
		{"x:1/99999999999999999999sec", "period"},
		{"x:1:", "burst"},
		{"x:1:0", "burst"},
		{"x:1:-5", "burst"},
		{"x:1:5/min", "burst"},
		{"x:1:1000000000000001", "burst"},
		{"1x:5@day", "limit name"},
		{"wcu:5@day", "reserved"},
		{"x:@day", "tokens of a quota"},
		{"x:0@day", "tokens of a quota"},
		{"x:5/day@day", "tokens of a quota"},
		{"x:1000000000000001@day", "tokens of a quota"},
		{"x:5@", "renewal"},
		{"x:5@daily", "renewal"},
		{"x:5@day:10", "renewal"},
		{"x:5@* * * * *", "never renew"},
		{"x:5@day@Berlin", "IANA"},
		{"x:5@day@Europe/Berlin@UTC", "IANA"},
		{"x:5@session 5", "session"},
		{"x:5@session 5h@Europe/Berlin", "zone"},
	}
	for _, tt := range tests {
		got, err := limitarg.Parse(tt.in)
		if err == nil || !strings.Contains(err.Error(), tt.names) {
			t.Errorf("Parse(%q) = %+v, %v; want an error that says %q", tt.in, got, err, tt.names)
		}
		if got != (limiter.Limit{}) {
			t.Errorf("Parse(%q) = %+v beside an error", tt.in, got)
		}
	}
}

// FuzzFormat: every valid limit is read back from its written form as the same limit.
func FuzzFormat(f *testing.F) {
	f.Add("rpm", int64(100), int64(100), int64(60))
	f.Add("tpm", int64(10_000), int64(15_000), int64(90))
	f.Add("x", int64(limiter.MaxTokens), int64(1), int64(1_000_000_000))
	f.Add("a.b", int64(999), int64(1000), int64(86400*3))
	f.Fuzz(func(t *testing.T, name string, amount, capacity, seconds int64) {
		if seconds > int64(limiter.MaxPeriod/time.Second) {
			t.Skip()
		}
		l := limiter.Limit{Name: name, Amount: amount, Capacity: capacity, Period: time.Duration(seconds) * time.Second}
		if l.Validate() != nil {
			t.Skip()
		}
		written := limitarg.Format(l)
		read, err := limitarg.Parse(written)
		if err != nil || read != l {
			t.Errorf("%+v is written %q and read %+v, %v", l, written, read, err)
		}
		plain := strings.NewReplacer(",", "", ": ", ":", " (burst: ", ":", ")", "").Replace(limitarg.Display(l))
		if plain != written {
			t.Errorf("%+v is displayed %q, without ornament %q, and written %q", l, limitarg.Display(l), plain, written)
		}
	})
}

// FuzzParse: an accepted limit is valid, and writing and reading it again keeps it.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"tpm:10000:15000", "rps:50/sec", "x:10/5min", "x:1/0min", "a:1:2:3", "x:007/060sec",
		"rpd:1000@day", "x:5@month from day 31@Europe/Berlin", "x:07@0,30 9-17 * * mon,tue; last day at 06:30", "x:1@3 months since 2026-01-31T10:00:00Z",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := limitarg.Parse(s)
		if err != nil {
			return
		}
		if err := l.Validate(); err != nil {
			t.Fatalf("Parse(%q) = %+v, which is invalid: %v", s, l, err)
		}
		if again, err := limitarg.Parse(limitarg.Format(l)); err != nil || again != l {
			t.Errorf("Parse(%q) = %+v, but again %+v, %v", s, l, again, err)
		}
	})
}

func TestLimitsFlag(t *testing.T) {
	t.Parallel()
	var v limitarg.Limits
	for _, s := range []string{"rpm:100", "tpm:10000/hour:15000"} {
		if err := v.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Set("a:1/s,b:2/h:3"); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{"c:1,c:2", "c:1,", ",c:1", "c:1,,d:1"} {
		if err := new(limitarg.Limits).Set(in); err == nil {
			t.Errorf("Set(%q) is accepted", in)
		}
	}
	if err := v.Set("q:7@0 9 * * mon,tue; 0,30 12 * * *,r:8@day at 06:30@Europe/Berlin,b:5"); err == nil || len(v) != 6 {
		t.Errorf("%s, %v; want q and r, and a complaint about b", v.String(), err)
	}
	v = v[:4]
	if err := v.Set("rpm:5"); err == nil || !strings.Contains(err.Error(), "rpm was given before") {
		t.Errorf("a limit given twice: %v", err)
	}
	if got, want := v.String(), "rpm:100/min,tpm:10000/hour:15000,a:1/sec,b:2/hour:3"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}

func TestAmountsFlag(t *testing.T) {
	t.Parallel()
	var v limitarg.Amounts
	for _, s := range []string{"tpm=500,rpm=1", "gpu=0", "x=1000000000000000"} {
		if err := v.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	want := limitarg.Amounts{"rpm": 1, "tpm": 500, "gpu": 0, "x": limiter.MaxTokens}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("amounts (-want +got):\n%s", diff)
	}
	if got, want := v.String(), "gpu=0,rpm=1,tpm=500,x=1000000000000000"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	for _, tt := range []struct{ in, names string }{
		{"", "name=tokens"},
		{"rpm", "name=tokens"},
		{"a=1,,b=2", "name=tokens"},
		{"a=1,", "name=tokens"},
		{"=1", "limit name"},
		{"wcu=1", "reserved"},
		{"a=", "tokens"},
		{"a=-1", "tokens"},
		{"a=1.5", "tokens"},
		{"a=1=2", "tokens"},
		{"a=1000000000000001", "tokens"},
		{"a=9223372036854775808", "tokens"},
		{"a=1,a=2", "given before"},
	} {
		var v limitarg.Amounts
		if err := v.Set(tt.in); err == nil || !strings.Contains(err.Error(), tt.names) {
			t.Errorf("Set(%q): %v; want an error that says %q", tt.in, err, tt.names)
		}
	}
}

func TestParseNamesTheName(t *testing.T) {
	t.Parallel()
	_, err := limitarg.Parse("wcu:1")
	if !errors.Is(err, limiter.ErrInvalid) {
		t.Errorf("a reserved name: %v", err)
	}
}

func TestGrouped(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 123456: "123,456", -1: "-1", -999: "-999", -1000: "-1,000",
		-9223372036854775808: "-9,223,372,036,854,775,808",
	} {
		if got := limitarg.Grouped(n); got != want {
			t.Errorf("Grouped(%d) = %q, want %q", n, got, want)
		}
	}
}
