package locust

import "net"

// What the tests see of the package.
var (
	Rounded = rounded
	Encode  = encode
	Parse   = func(frame []byte) (kind string, err error) {
		m, err := parse(frame)
		if err == nil && m.kind == "spawn" {
			_, err = m.order()
		}
		m.index()
		return m.kind, err
	}
	NewGuard = func(conn net.Conn) net.Conn { return &guard{Conn: conn, skip: greetingSize} }
)

// MaxFrame and GreetingSize are sizes in bytes.
const (
	MaxFrame     = maxFrame
	GreetingSize = greetingSize
)

// FailureKey is the key of a failure.
func FailureKey(method, name, text string) string {
	f := failure{Method: method, Name: name, Error: text}
	return f.key()
}
