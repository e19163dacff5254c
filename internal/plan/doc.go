// Package plan works out writes to buckets from images and instants. Everything in it is
// pure: it has no clock, no lock and no context, and changes nothing that it is given.
package plan
