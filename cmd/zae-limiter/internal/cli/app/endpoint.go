package app

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// An Endpoint says where DynamoDB is; an empty field leaves that to the
// environment.
type Endpoint struct {
	Region, URL string
	// Timeout is how long a server may take to begin an answer; 0 is [DefaultTimeout].
	Timeout time.Duration
}

// DefaultTimeout is the default of [Endpoint.Timeout]. A person waits for the command.
const DefaultTimeout = 8 * time.Second

// IsLoopback reports whether a URL is on this machine.
func IsLoopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// CheckURL checks the URL of a server, and names what is to be given with an example.
func CheckURL(text, example string) error {
	const ports = 1 << 16
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("give a URL, %s for instance", example)
	}
	if port, err := strconv.Atoi(u.Port()); strings.HasSuffix(u.Host, ":") || u.Port() != "" && (err != nil || port < 1 || port >= ports) {
		return fmt.Errorf("give a port from 1 to %d, or none: %s for instance", ports-1, example)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("give scheme, host and port only: %s for instance", example)
	}
	return nil
}

// IsRegion reports whether a text can be the name of a region, which is part of a host name.
func IsRegion(text string) bool {
	const most = 63
	return text != "" && len(text) <= most && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" &&
		!strings.HasPrefix(text, "-") && !strings.HasSuffix(text, "-")
}
