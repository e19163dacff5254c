package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
)

// hosts are the names and addresses, beside those of loopback, that requests may name.
//
// A page of any site can make the browser send requests to this machine. The browser keeps the
// answer from the page, and sends no X-Amz-Target header, unless it takes page and server for the
// same origin. It does so if the page's own name, after a change in DNS, has the address of this
// machine ("DNS rebinding"). The Host of such a request is still the page's name.
//
// The check is only for servers without keys: a page has no key, and cannot sign.
type hosts map[string]struct{}

func newHosts(names []string) hosts {
	h := make(hosts, len(names))
	for _, name := range names {
		if name = plainHost(name); name != "" { // a request without a host comes from anywhere
			h[name] = struct{}{}
		}
	}
	return h
}

// plainHost returns a name in lower case without the dot of the root, or an address without
// brackets.
func plainHost(host string) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "."))
}

// has reports whether requests may name a host, which may have a port. Names below localhost are
// this machine's, too: RFC 6761 reserves them for loopback.
//
// A port must be a number. A host such as "127.0.0.1:80@evil.example" would otherwise pass for its
// beginning.
func (h hosts) has(host string) bool {
	if name, port, err := net.SplitHostPort(host); err == nil {
		if strings.Trim(port, "0123456789") != "" {
			return false
		}
		host = name
	}
	host = plainHost(host)
	if addr, err := netip.ParseAddr(host); err == nil && addr.Unmap().IsLoopback() {
		return true
	}
	if _, listed := h[host]; listed {
		return true
	}
	below, local := strings.CutSuffix(host, "localhost")
	return local && (below == "" || strings.HasSuffix(below, ".") && !strings.ContainsAny(below, "[]:@/"))
}

// check refuses a request that a page of another site may have caused. Three things are checked,
// because browsers differ in what they send. Host is always there, Origin comes with a POST of a
// page, and Sec-Fetch-Site with recent browsers. Programs send the last two not at all.
func (h hosts) check(r *http.Request) error {
	if !h.has(r.Host) {
		return forbidden("The host " + quoted(r.Host) + " is not this machine. Without credentials, only a loopback address, localhost, " +
			"or a host that HandlerOptions.Hosts (zae-limiter local --allow-host) names is served.")
	}
	for _, origin := range r.Header["Origin"] {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !h.has(u.Host) {
			return forbidden("A page of " + quoted(origin) + " sent this request. Without credentials, only pages of this machine are served.")
		}
	}
	if slices.Contains(r.Header["Sec-Fetch-Site"], "cross-site") {
		return forbidden("A page of another site sent this request. Without credentials, only pages of this machine are served.")
	}
	return nil
}

// quoted is for messages, which repeat no more of a client's text than helps.
func quoted(s string) string {
	const most = 100
	if len(s) > most {
		s = s[:most] + "…"
	}
	return "'" + strings.ToValidUTF8(s, "?") + "'"
}

func forbidden(message string) error {
	return &refusal{http.StatusForbidden, serving + "AccessDeniedException", message}
}

// budget limits the bytes of the large bodies and answers that are in memory at a time. It refuses
// and never waits. Waiting requests would hold what they have, and could wait for each other for
// ever.
//
//	request A   holds 40 · waits for 10
//	request B   holds 20 · waits for 10        of 64
type budget struct {
	most int64
	held atomic.Int64
}

// full reports whether too little is left for a large body or answer.
func (b *budget) full() bool { return b.held.Load() > b.most-keptBytes }

// take takes bytes, or reports that there are not so many left. Adding first and then looking needs
// no lock. Two that add at once may both be refused although one would fit; SDKs send again.
func (b *budget) take(n int64) bool {
	if b.held.Add(n) > b.most {
		b.held.Add(-n)
		return false
	}
	return true
}

// charge takes bytes even if there are not so many left. It is for an answer whose operation is
// done. Refusing it would hide a write that took place.
func (b *budget) charge(n int64) { b.held.Add(n) }

func (b *budget) give(n int64) { b.held.Add(-n) }
