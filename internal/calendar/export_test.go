package calendar

// Forget is what happens some time after the last use of the renewal of a code and a zone.
func Forget(code, zone string) { renewals.forget(key{code, zone}) }

// IsInterned reports whether there is a renewal of a code and a zone.
func IsInterned(code, zone string) bool { return renewals.find(key{code, zone}) != nil }
