// Package search finds limits of a system under load by running a scenario again and again:
// [Ceiling] the highest rate that keeps a service level, [Tune] the number of users that one
// process carries.
package search
