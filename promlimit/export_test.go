package promlimit

// Internals that the tests use.
var (
	Families = families
	Other    = other
)

// A Family is the description of a metric.
type Family = family
