package app

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/awsauth"
)

// proxied is the operation of the error of a connection to a proxy.
const proxied = "proxyconnect"

// IsUnreached reports whether no connection came about, so that nothing was sent.
func IsUnreached(err error) bool {
	dial := (*net.OpError)(nil)
	return errors.As(err, &dial) && (dial.Op == "dial" || dial.Op == proxied)
}

// IsUnanswered reports whether a server took a request, and did not begin to answer in time.
func IsUnanswered(err error) bool {
	sent := (*url.Error)(nil)
	return errors.As(err, &sent) && sent.Timeout() && !IsUnreached(err)
}

// IsMisspoken reports whether a server speaks HTTP where the URL says HTTPS.
func IsMisspoken(err error) bool {
	answer := tls.RecordHeaderError{}
	return errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &answer) && string(answer.RecordHeader[:]) == "HTTP/"
}

// IsForbidden reports whether there are no credentials, a service does not accept them, or they
// do not permit a call.
func IsForbidden(err error) bool {
	return errors.Is(err, limiter.ErrAccessDenied) || awsauth.Of(err) != awsauth.None
}

// nextRequest is what helps if a request did not reach a service of AWS, or if the service did
// not accept its credentials; "" if nothing is known to help.
func (a *App) nextRequest(err error) string {
	proxy := (*net.OpError)(nil)
	switch source := a.addressOf(err); {
	case IsForbidden(err):
		return nextCredentials(err)
	case IsMisspoken(err):
		return "again with http:// instead of https:// in " + source
	case IsUnreached(err) && errors.As(err, &proxy) && proxy.Op == proxied:
		return "again with the right $HTTPS_PROXY, or once the proxy serves"
	case IsUnreached(err) && source == ownAddress && IsLoopback(a.Flags.EndpointURL) && serviceOf(err) == dynamoDB:
		return "zae-limiter local --addr " + hostOf(a.Flags.EndpointURL) + ", if nothing serves there yet"
	case IsUnreached(err):
		return "again with the right " + source + ", or once the network reaches it"
	case IsUnanswered(err):
		return "again with the right " + source + ", or once the server answers"
	}
	return ""
}

// nextCredentials is what helps against credentials that a service does not accept. What they
// must permit is for the message to say.
func nextCredentials(err error) string {
	switch awsauth.Of(err) {
	case awsauth.Expired:
		return "again with new credentials, from aws sso login for instance"
	case awsauth.Wrong:
		return "again with the right AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
	case awsauth.None, awsauth.Denied:
	}
	return ""
}

const (
	ownAddress = "--endpoint-url"
	dynamoDB   = "DynamoDB"
)

// addressOf is the flag or the variable that gave the address of a failed request.
func (a *App) addressOf(err error) string {
	sent := (*url.Error)(nil)
	if !errors.As(err, &sent) {
		return ""
	}
	host := hostOf(sent.URL)
	if given := a.Flags.EndpointURL; given != "" && hostOf(given) == host {
		return ownAddress
	}
	for _, name := range []string{envDynamoDB, envServices} {
		if given := a.Getenv(name); given != "" && hostOf(given) == host {
			return "$" + name
		}
	}
	switch {
	case !isOfAWS(host):
		return "URL"
	case serviceOf(err) == dynamoDB:
		return "--region or " + ownAddress
	}
	return "--region"
}

// serviceOf is the service that a failed request was for, "" if the error does not say.
func serviceOf(err error) string {
	operation := interface{ Service() string }(nil)
	if !errors.As(err, &operation) {
		return ""
	}
	return operation.Service()
}

// hostOf is the host of a URL, with its port.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
