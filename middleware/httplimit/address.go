package httplimit

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	limiter "github.com/zeroae/zae-limiter-go"
)

// Header fields in which proxies name the client.
const (
	XForwardedFor = "X-Forwarded-For"
	Forwarded     = "Forwarded" // RFC 7239
)

// AddrOptions say how [ClientAddr] finds the client's address. The zero value trusts no
// proxy: the client is whoever opened the connection.
type AddrOptions struct {
	// Trusted are the addresses of proxies that are believed. Everything else that writes
	// the field is believed only about itself. A connection without an address, from a Unix
	// socket, is a trusted proxy if there are any.
	Trusted []netip.Prefix
	// Field is the one header field that the trusted proxies append to: [XForwardedFor], the
	// default, or [Forwarded]. The other one is ignored, since a client may write it.
	Field string
	// IPv6Bits is how many bits of an IPv6 address tell clients apart. Default 64: a client
	// has 2⁶⁴ addresses or more. 128 takes each address for a client.
	IPv6Bits int
}

// ClientAddr is the client's address: "192.0.2.1", or the encoded network "2001:db8::/64".
//
// It walks back from the connection through the field's entries, from the last to the
// first. Each trusted proxy has appended the address that it saw. The first address
// that is not a trusted proxy's is the client. The client has written all entries before
// it, so they are never read. If an entry is not an address ("unknown", or an obfuscated
// name), the client is the proxy that appended it. If all are trusted, the first one is the
// client.
//
// It fails with a [*limiter.ValidationError] if an option is invalid.
func ClientAddr(o AddrOptions) (Key, error) {
	switch o.Field {
	case "", XForwardedFor:
		o.Field = XForwardedFor
	case Forwarded:
	default:
		return nil, &limiter.ValidationError{Field: "field", Value: o.Field, Reason: "give httplimit.XForwardedFor or httplimit.Forwarded"}
	}
	if o.IPv6Bits < 0 || o.IPv6Bits > 128 {
		return nil, &limiter.ValidationError{Field: "IPv6 bits", Value: strconv.Itoa(o.IPv6Bits), Reason: "give 1 to 128, or 0 for 64"}
	}
	if o.IPv6Bits == 0 {
		o.IPv6Bits = 64
	}
	proxies := proxies{field: o.Field}
	for _, p := range o.Trusted {
		if !p.IsValid() {
			return nil, &limiter.ValidationError{Field: "trusted", Value: p.String(), Reason: "give valid prefixes"}
		}
		proxies.trusted = append(proxies.trusted, unmapped(p))
	}
	return func(r *http.Request) (string, error) {
		addr, ok := proxies.client(r)
		if !ok {
			return "", &RequestError{Reason: "the client's address is not known", Missing: true}
		}
		return addrName(addr, o.IPv6Bits), nil
	}, nil
}

// unmapped makes an IPv4 prefix of one that is mapped to IPv6, as is done with addresses.
func unmapped(p netip.Prefix) netip.Prefix {
	if bits := p.Bits() - (128 - 32); p.Addr().Is4In6() && bits >= 0 {
		return netip.PrefixFrom(p.Addr().Unmap(), bits)
	}
	return p
}

// addrName is the entity of an address.
func addrName(addr netip.Addr, bits6 int) string {
	if addr.Is4() || bits6 == addr.BitLen() {
		return limiter.EncodeName(addr.String())
	}
	return limiter.EncodeName(netip.PrefixFrom(addr, bits6).Masked().String())
}

// proxies are those that a server trusts, and the field that they append to.
type proxies struct {
	trusted []netip.Prefix
	field   string
}

func (p *proxies) trusts(addr netip.Addr) bool {
	for _, t := range p.trusted {
		if t.Contains(addr) {
			return true
		}
	}
	return false
}

// client walks back from the connection to the client.
func (p *proxies) client(r *http.Request) (client netip.Addr, ok bool) {
	client, ok = parseNode(r.RemoteAddr)
	if len(p.trusted) == 0 || ok && !p.trusts(client) {
		return client, ok
	}
	for _, line := range slices.Backward(r.Header[p.field]) {
		for rest := line; rest != ""; {
			var entry string
			rest, entry = lastEntry(rest)
			if entry == "" { // an empty entry of a list means nothing
				continue
			}
			node := entry
			if p.field == Forwarded {
				node = forwardedFor(entry)
			}
			addr, isAddr := parseNode(node)
			if !isAddr {
				return client, ok
			}
			client, ok = addr, true
			if !p.trusts(client) {
				return client, ok
			}
		}
	}
	return client, ok
}

// lastEntry cuts off the last entry of a comma-separated list. It reads from the end, so
// that nothing at the beginning, an open quote for instance, changes the last entry.
func lastEntry(s string) (rest, entry string) {
	quoted := false
	for i := len(s) - 1; i >= 0; i-- {
		switch {
		case s[i] == '"' && (!quoted || !isEscaped(s, i)):
			quoted = !quoted
		case s[i] == ',' && !quoted:
			return s[:i], strings.Trim(s[i+1:], " \t")
		}
	}
	return "", strings.Trim(s, " \t")
}

// isEscaped reports whether a character follows an odd number of backslashes.
func isEscaped(s string, i int) bool {
	return (i-len(strings.TrimRight(s[:i], `\`)))%2 == 1
}

// forwardedFor returns the node of the parameter "for" of an entry, "" if it has not
// exactly one.
func forwardedFor(entry string) (node string) {
	for rest := entry; rest != ""; {
		var pair string
		pair, rest = cutPair(rest)
		name, value, ok := strings.Cut(pair, "=")
		if !ok || !strings.EqualFold(strings.Trim(name, " \t"), "for") {
			continue
		}
		if node != "" {
			return ""
		}
		node = strings.Trim(value, " \t")
		if len(node) >= 2 && node[0] == '"' && node[len(node)-1] == '"' {
			node = node[1 : len(node)-1] // an address has no character that is escaped
		}
	}
	return node
}

// cutPair cuts off the first of an entry's parameters.
func cutPair(s string) (pair, rest string) {
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"' && (!quoted || !isEscaped(s, i)):
			quoted = !quoted
		case s[i] == ';' && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// parseNode reads an address with or without a port: "192.0.2.1", "192.0.2.1:80",
// "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:80". It drops a zone, and makes an IPv4
// address of one that is mapped to IPv6.
func parseNode(s string) (addr netip.Addr, ok bool) {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		if inside, bracketed := strings.CutPrefix(s, "["); bracketed && strings.HasSuffix(inside, "]") {
			if addr, err = netip.ParseAddr(strings.TrimSuffix(inside, "]")); addr.Is4() {
				return netip.Addr{}, false
			}
		} else {
			var port netip.AddrPort
			port, err = netip.ParseAddrPort(s)
			addr = port.Addr()
		}
	}
	return addr.WithZone("").Unmap(), err == nil
}
