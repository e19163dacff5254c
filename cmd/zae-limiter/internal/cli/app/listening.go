package app

import (
	"net"
	"strconv"
)

// URLOf is the URL by which this machine reaches an address.
func URLOf(at net.Addr) string {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return "http://" + at.String()
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "127.0.0.1" // one of all its addresses
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}
