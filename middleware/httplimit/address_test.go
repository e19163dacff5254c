package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
	"github.com/zeroae/zae-limiter-go/store"
)

var inner = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}

func clientAddr(tb testing.TB, o httplimit.AddrOptions) httplimit.Key {
	tb.Helper()
	k, err := httplimit.ClientAddr(o)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func from(remote, field string, lines ...string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
	r.RemoteAddr = remote
	for _, line := range lines {
		r.Header.Add(field, line)
	}
	return r
}

func TestTheClientIsTheLastAddressThatIsNotTrusted(t *testing.T) {
	t.Parallel()
	const xff, fwd = httplimit.XForwardedFor, httplimit.Forwarded
	for name, c := range map[string]struct {
		trusted []netip.Prefix
		field   string
		remote  string
		lines   []string
		want    string
	}{
		"nobody is trusted":               {nil, xff, "192.0.2.1:80", []string{"198.51.100.1"}, "192.0.2.1"},
		"the connection is not trusted":   {inner, xff, "192.0.2.1:80", []string{"198.51.100.1"}, "192.0.2.1"},
		"no field":                        {inner, xff, "10.0.0.1:80", nil, "10.0.0.1"},
		"one proxy":                       {inner, xff, "10.0.0.1:80", []string{"198.51.100.1"}, "198.51.100.1"},
		"the client lies":                 {inner, xff, "10.0.0.1:80", []string{"1.2.3.4, 198.51.100.1"}, "198.51.100.1"},
		"the client claims to be inside":  {inner, xff, "10.0.0.1:80", []string{"10.0.0.9, 198.51.100.1"}, "198.51.100.1"},
		"two proxies":                     {inner, xff, "10.0.0.1:80", []string{"1.2.3.4, 198.51.100.1,10.0.0.2"}, "198.51.100.1"},
		"two lines":                       {inner, xff, "10.0.0.1:80", []string{"1.2.3.4", "198.51.100.1 , 10.0.0.2"}, "198.51.100.1"},
		"two lines, the last trusted":     {inner, xff, "10.0.0.1:80", []string{"1.2.3.4,198.51.100.1", "10.0.0.2"}, "198.51.100.1"},
		"all are trusted":                 {inner, xff, "10.0.0.1:80", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"an entry that is no address":     {inner, xff, "10.0.0.1:80", []string{"198.51.100.1, unknown, 10.0.0.2"}, "10.0.0.2"},
		"empty entries":                   {inner, xff, "10.0.0.1:80", []string{"1.2.3.4, 198.51.100.1, ,"}, "198.51.100.1"},
		"a port":                          {inner, xff, "10.0.0.1:80", []string{"198.51.100.1:1234"}, "198.51.100.1"},
		"IPv6":                            {inner, xff, "[fd00::1]:80", []string{"2001:db8:1:2:3::4"}, "2001:db8:1:2::Z_2F64"},
		"IPv6 in brackets, with a port":   {inner, xff, "[fd00::1]:80", []string{"[2001:db8:1:2:3::4]:99"}, "2001:db8:1:2::Z_2F64"},
		"IPv4 in brackets":                {inner, xff, "10.0.0.1:80", []string{"[198.51.100.1]"}, "10.0.0.1"},
		"IPv4 mapped to IPv6":             {inner, xff, "[::ffff:10.0.0.1]:80", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		"a trusted prefix mapped to IPv6": {[]netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}, xff, "10.0.0.1:80", []string{"198.51.100.1"}, "198.51.100.1"},
		"all that is mapped is trusted":   {[]netip.Prefix{netip.MustParsePrefix("::ffff:0.0.0.0/96")}, xff, "10.0.0.1:80", []string{"2001:db8::1", "192.0.2.1"}, "2001:db8::Z_2F64"},
		"a prefix with bits of a host":    {[]netip.Prefix{netip.MustParsePrefix("10.1.2.3/8")}, xff, "10.0.0.1:80", []string{"198.51.100.1"}, "198.51.100.1"},
		"a zone":                          {nil, xff, "[fe80::1%eth0]:80", nil, "fe80::Z_2F64"},
		"the loopback":                    {nil, xff, "[::1]:80", nil, "Z_3A:Z_2F64"},
		"a Unix socket":                   {inner, xff, "@", []string{"198.51.100.1"}, "198.51.100.1"},
		"the other field is ignored":      {inner, fwd, "10.0.0.1:80", nil, "10.0.0.1"},
		"forwarded":                       {inner, fwd, "10.0.0.1:80", []string{"for=198.51.100.1"}, "198.51.100.1"},
		"forwarded, quoted":               {inner, fwd, "10.0.0.1:80", []string{`For="198.51.100.1:4711"`}, "198.51.100.1"},
		"forwarded, IPv6":                 {inner, fwd, "10.0.0.1:80", []string{`For="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::Z_2F64"},
		"forwarded, parameters":           {inner, fwd, "10.0.0.1:80", []string{`proto=http;for=198.51.100.1;by=203.0.113.43`}, "198.51.100.1"},
		"forwarded, a semicolon quoted":   {inner, fwd, "10.0.0.1:80", []string{`host="a;for=1.2.3.4";for=198.51.100.1`}, "198.51.100.1"},
		"forwarded, two":                  {inner, fwd, "10.0.0.1:80", []string{`for=192.0.2.43, for="198.51.100.17", for=10.0.0.2`}, "198.51.100.17"},
		"forwarded, a comma quoted":       {inner, fwd, "10.0.0.1:80", []string{`for=1.2.3.4, for=198.51.100.1;host="a, for=5.6.7.8"`}, "198.51.100.1"},
		"forwarded, a quote escaped":      {inner, fwd, "10.0.0.1:80", []string{`for=6.6.6.6;z=", for=198.51.100.1;host="a\"b"`}, "198.51.100.1"},
		"forwarded, a comma after it":     {inner, fwd, "10.0.0.1:80", []string{`for=6.6.6.6, for=198.51.100.1;host="a\"b, for=5.6.7.8;for=1.2.3.4"`}, "198.51.100.1"},
		"forwarded, a backslash at last":  {inner, fwd, "10.0.0.1:80", []string{`for=6.6.6.6, host="a\\\\";for=198.51.100.1`}, "198.51.100.1"},
		"forwarded, an open quote":        {inner, fwd, "10.0.0.1:80", []string{`for="1.2.3.4, for=198.51.100.1`}, "198.51.100.1"},
		"forwarded, obfuscated":           {inner, fwd, "10.0.0.1:80", []string{`for=198.51.100.1, for="_gazonk"`}, "10.0.0.1"},
		"forwarded, unknown":              {inner, fwd, "10.0.0.1:80", []string{`for=unknown, for=10.0.0.2`}, "10.0.0.2"},
		"forwarded, twice for":            {inner, fwd, "10.0.0.1:80", []string{`for=1.2.3.4;for=198.51.100.1`}, "10.0.0.1"},
		"forwarded, without for":          {inner, fwd, "10.0.0.1:80", []string{`for=1.2.3.4, proto=https`}, "10.0.0.1"},
	} {
		r := from(c.remote, c.field, c.lines...)
		if name == "the other field is ignored" {
			r.Header.Set(xff, "198.51.100.1")
		}
		got, err := clientAddr(t, httplimit.AddrOptions{Trusted: c.trusted, Field: c.field})(r)
		if got != c.want || err != nil || store.CheckEntity(got) != nil {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
}

func TestAnAddressThatIsNotKnownIsRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []httplimit.AddrOptions{{}, {Trusted: inner}} {
		got, err := clientAddr(t, o)(from("@", httplimit.XForwardedFor))
		if got != "" || !errors.Is(err, httplimit.ErrNoKey) || httplimit.StatusOf(err) != http.StatusBadRequest {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

func TestIPv6AddressesAreGrouped(t *testing.T) {
	t.Parallel()
	for bits, want := range map[int]string{0: "2001:db8:1:2::Z_2F64", 48: "2001:db8:1::Z_2F48", 128: "2001:db8:1:2:3::4"} {
		if got, err := clientAddr(t, httplimit.AddrOptions{IPv6Bits: bits})(from("[2001:db8:1:2:3::4]:80", "")); got != want || err != nil {
			t.Errorf("%d: got %q, %v", bits, got, err)
		}
	}
	got, err := clientAddr(t, httplimit.AddrOptions{IPv6Bits: 128})(from("[fe80::1%eth0]:80", ""))
	if got != "fe80::1" || err != nil {
		t.Errorf("a zone is not part of an address: got %q, %v", got, err)
	}
}

func TestBadAddrOptions(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]httplimit.AddrOptions{
		"field": {Field: "X-Real-IP"}, "IPv6 bits": {IPv6Bits: 129}, "trusted": {Trusted: make([]netip.Prefix, 1)},
	} {
		if _, err := httplimit.ClientAddr(o); err == nil {
			t.Errorf("%s is accepted", field)
		} else if bad := (*limiter.ValidationError)(nil); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// The law: whatever the client writes into the field, the client is the address that the
// trusted proxies saw. They append an entry to the client's line, or a line to the client's
// lines. With nothing trusted to name it, the result is still a valid entity.
func FuzzForwarded(f *testing.F) {
	for _, s := range []string{"", ",", `"`, `for="`, `\"`, "10.0.0.1", "for=10.0.0.1", `for="[::1]";for=1, "`, "\x00", "[", "]:", "for=;"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, lie string) {
		for field, entries := range map[string][2]string{
			httplimit.XForwardedFor: {"198.51.100.7", "10.0.0.2"},
			httplimit.Forwarded:     {`proto=https;for="198.51.100.7:80"`, `for=10.0.0.2;host="a\"b,c;d\\\\"`},
		} {
			k := clientAddr(t, httplimit.AddrOptions{Trusted: inner, Field: field})
			for _, lines := range [][]string{
				{lie + ", " + entries[0]}, {lie, entries[0]}, {lie + "," + entries[0] + "," + entries[1]}, {lie, entries[0], entries[1]},
			} {
				if got, err := k(from("10.0.0.1:80", field, lines...)); got != "198.51.100.7" || err != nil {
					t.Errorf("%s: %q: got %q, %v", field, lines, got, err)
				}
			}
			got, err := k(from("10.0.0.1:80", field, lie))
			if err != nil || store.CheckEntity(got) != nil {
				t.Errorf("%s: %q: got %q, %v", field, lie, got, err)
			}
			if name, err := limiter.DecodeName(got); err != nil || strings.ContainsAny(name, "%") {
				t.Errorf("%s: %q: %q is %q, %v", field, lie, got, name, err)
			}
		}
	})
}
