package promlimit

// Families are all metrics.
var Families = families

// A Family is the description of a metric.
type Family = family
