package server

import "net"

// Bound is a listener with so many connections at most.
func Bound(l net.Listener, most int) net.Listener { return bound(l, most) }
