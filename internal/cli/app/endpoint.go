package app

import (
	"net"
	"net/url"
)

// An Endpoint says where DynamoDB is; an empty field leaves that to the
// environment.
type Endpoint struct{ Region, URL string }

// IsLoopback reports whether a URL is on this machine.
func IsLoopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
