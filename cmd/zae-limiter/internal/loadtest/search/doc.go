// Package search finds limits of a system under load by running a scenario again and
// again. [Ceiling] finds the highest rate that keeps a service level, and [Tune] the
// number of users that one process carries.
package search
